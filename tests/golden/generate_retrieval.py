"""FiD, DPR and RAG: small random models with inputs, losses, logits, gradients and generated ids."""

import torch
import transformers as hf

from common import HERE, save, seed
from generate_models import checkpoint_names, outputs_of, randomize, save_model, t5, tokens

BATCH, PASSAGES, VOCAB = 2, 3, 37


def padded(rows, length, least):
    """Ids of rows of different lengths, padded with zeros."""
    real = torch.randint(least, length + 1, (rows,))
    real[0] = length
    mask = (torch.arange(length)[None] < real[:, None]).long()
    return torch.randint(3, VOCAB, (rows, length)) * mask, mask


def folder_of(name):
    return HERE / "retrieval" / name


def write(name, model, inputs, outputs, gradients=True):
    folder = folder_of(name)
    save_model(model, folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save(folder / "inputs.safetensors", inputs)
    save(folder / "outputs.safetensors", outputs)
    if gradients:
        outputs["loss"].backward()
        values = {key: torch.zeros_like(value) if value.grad is None else value.grad
                  for key, value in model.named_parameters()}
        save(folder / "grads.safetensors", checkpoint_names(model, values))


def fid():
    """Every passage encoded by itself; the decoder reads them joined, padding masked out (Izacard and Grave)."""
    config = t5(d_kv=4, d_ff=28)
    config._attn_implementation = "eager"
    model = hf.T5ForConditionalGeneration(config).eval()
    randomize(model)
    ids, mask = padded(BATCH * PASSAGES, 9, 4)
    labels = torch.randint(3, VOCAB, (BATCH, 5))
    labels[1, 3:] = -100
    encoded = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    joined = encoded.reshape(BATCH, PASSAGES * 9, -1)
    joined_mask = mask.reshape(BATCH, -1)
    result = model(encoder_outputs=(joined,), attention_mask=joined_mask, labels=labels, output_attentions=True)
    # A passage's score: cross-attention at the first token, mean over layers, heads and the passage's tokens.
    cross = torch.stack(result.cross_attentions)[:, :, :, 0]  # [layers, batch, heads, keys]
    by_passage = cross.mean((0, 2)).reshape(BATCH, PASSAGES, 9)
    scores = by_passage.sum(2) / mask.reshape(BATCH, PASSAGES, 9).sum(2)
    encoder_outputs = hf.modeling_outputs.BaseModelOutput(last_hidden_state=joined.detach())
    with torch.no_grad():
        greedy = model.generate(encoder_outputs=encoder_outputs, attention_mask=joined_mask, max_new_tokens=8,
                                do_sample=False, num_beams=1)
    write("fid", model, {"input_ids": ids, "attention_mask": mask, "labels": labels},
          {"loss": result.loss, "logits": result.logits, "passage_scores": scores, "generated": greedy})


def dpr(**changes):
    return hf.DPRConfig(**{**dict(vocab_size=VOCAB, hidden_size=18, num_hidden_layers=2, num_attention_heads=3,
                                  intermediate_size=28, max_position_embeddings=16), **changes})


def encoders():
    for name, build, projection in (("dpr_question", hf.DPRQuestionEncoder, 0), ("dpr_context", hf.DPRContextEncoder, 12)):
        config = dpr(projection_dim=projection)
        config._attn_implementation = "eager"
        model = build(config).eval()
        randomize(model)
        inputs = tokens()
        result = model(**inputs, output_hidden_states=True, output_attentions=True)
        write(name, model, inputs, outputs_of(result), gradients=False)


def bart(**changes):
    return hf.BartConfig(**{**dict(vocab_size=VOCAB, d_model=16, encoder_layers=2, decoder_layers=2,
                                   encoder_attention_heads=4, decoder_attention_heads=2, encoder_ffn_dim=28,
                                   decoder_ffn_dim=20, max_position_embeddings=32, pad_token_id=1, bos_token_id=0,
                                   eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2), **changes})


def documents(pad):
    """Rows of questions with documents, padded with `pad`, and scores far enough apart to matter."""
    ids, mask = padded(BATCH * PASSAGES, 11, 5)
    return {"context_input_ids": ids.masked_fill(mask == 0, pad), "context_attention_mask": mask,
            "doc_scores": torch.randn(BATCH, PASSAGES)}


def answers(start, pad, bos):
    """Whole sequences: the start token, then for BART its bos, then padding behind the second row's end."""
    labels = torch.randint(3, VOCAB, (BATCH, 7))
    labels[:, 0] = start
    if bos is not None:
        labels[:, 1] = bos
    labels[1, 5:] = pad
    return labels


def rag(name, build, generator, question=None, bos=None, **changes):
    parts = {"question_encoder": (question or dpr()).to_dict(), "generator": generator.to_dict()}
    config = hf.RagConfig(**parts, n_docs=PASSAGES, bos_token_id=bos,
                          pad_token_id=generator.pad_token_id, eos_token_id=generator.eos_token_id,
                          decoder_start_token_id=generator.decoder_start_token_id, **changes)
    config.question_encoder._attn_implementation = config.generator._attn_implementation = "eager"
    model = build(config).eval()
    randomize(model)
    inputs = {**documents(generator.pad_token_id),
              "labels": answers(generator.decoder_start_token_id, generator.pad_token_id, bos)}
    result = model(**inputs)
    question_ids = tokens()
    vectors = model.question_encoder(**question_ids).pooler_output
    arguments = {key: value for key, value in inputs.items() if key != "labels"}
    special = dict(decoder_start_token_id=generator.decoder_start_token_id, eos_token_id=generator.eos_token_id,
                   pad_token_id=generator.pad_token_id,
                   forced_eos_token_id=getattr(generator, "forced_eos_token_id", None))
    if build is hf.RagSequenceForGeneration:
        # transformers 5 lets this class's generator attend to padding; without padding there is nothing to differ in.
        arguments["context_input_ids"] = torch.randint(3, VOCAB, arguments["context_input_ids"].shape)
        arguments["context_attention_mask"] = torch.ones_like(arguments["context_input_ids"])
    generated = {"generated_from": arguments["context_input_ids"],
                 "generated_from_mask": arguments["context_attention_mask"]}
    model.config.reduce_loss = False  # the reference's generate() needs a loss per answer
    for beams in (1, 3):
        if build is hf.RagTokenForGeneration:
            settings = hf.GenerationConfig(num_beams=beams, max_length=9, **special)
            ids = model.generate(**arguments, generation_config=settings)
        else:
            ids = model.generate(**arguments, num_beams=beams, max_length=9, num_return_sequences=1, **special)
        generated[f"generated_{beams}"] = ids
    model.config.reduce_loss = changes.get("reduce_loss", False)
    loss = result.loss
    write(name, model, {**inputs, **{f"question_{key}": value for key, value in question_ids.items()}},
          {"loss": loss, "logits": result.logits, "question_vectors": vectors, **generated}, gradients=False)
    loss.sum().backward()
    values = {key: torch.zeros_like(value) if value.grad is None else value.grad
              for key, value in model.named_parameters()}
    save(folder_of(name) / "grads.safetensors", checkpoint_names(model, values))


def rags():
    rag("rag_token_bart", hf.RagTokenForGeneration, bart(), bos=0)
    rag("rag_sequence_bart", hf.RagSequenceForGeneration, bart(), bos=0)
    small = dict(d_kv=4, d_ff=28, num_layers=1, num_heads=2)
    rag("rag_token_t5", hf.RagTokenForGeneration, t5(**small), dpr(projection_dim=12), label_smoothing=0.1,
        do_marginalize=True)
    rag("rag_sequence_t5", hf.RagSequenceForGeneration, t5(**small), bos=3, label_smoothing=0.1, reduce_loss=True,
        exclude_bos_score=True)


if __name__ == "__main__":
    seed(6)
    hf.utils.logging.disable_progress_bar()
    fid()
    encoders()
    rags()
