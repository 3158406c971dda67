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


def rag(name, build):
    config = hf.RagConfig.from_question_encoder_generator_configs(
        dpr(), t5(d_kv=4, d_ff=28, bos_token_id=2), n_docs=PASSAGES, max_combined_length=9, do_deduplication=True, reduce_loss=False)
    config._attn_implementation = "eager"
    model = build(config=config, question_encoder=hf.DPRQuestionEncoder(config.question_encoder),
                  generator=hf.T5ForConditionalGeneration(config.generator)).eval()
    randomize(model)
    question, question_mask = padded(BATCH, 7, 4)
    ids, mask = padded(BATCH * PASSAGES, 9, 4)
    labels = torch.randint(3, VOCAB, (BATCH, 5))
    labels[:, -1] = 1
    labels[1, 3], labels[1, 4] = 1, 0  # ended, then padding, which RAG's losses leave out by id
    embedding = model.question_encoder(question, attention_mask=question_mask).pooler_output
    documents = torch.randn(BATCH, PASSAGES, embedding.shape[1])
    scores = torch.einsum("bh,bdh->bd", embedding, documents)
    common = {"context_input_ids": ids, "context_attention_mask": mask, "doc_scores": scores}
    result = model(input_ids=None, **common, labels=labels, n_docs=PASSAGES)
    plain = model(input_ids=None, **common, n_docs=PASSAGES,
                  decoder_input_ids=torch.cat([torch.zeros(BATCH, 1, dtype=torch.long), labels[:, :-1]], 1))
    outputs = {"loss": result.loss.sum() if result.loss.dim() else result.loss, "losses": result.loss, "logits": plain.logits,
               "question_embedding": embedding, "doc_scores": scores}
    if name == "rag_token":
        outputs["marginal_logits"] = model(
            input_ids=None, **common, n_docs=PASSAGES, do_marginalize=True,
            decoder_input_ids=torch.cat([torch.zeros(BATCH, 1, dtype=torch.long), labels[:, :-1]], 1)).logits
    with torch.no_grad():
        for beams in (1, 3):
            outputs[f"generated_{beams}"] = model.generate(
                context_input_ids=ids, context_attention_mask=mask,
                doc_scores=scores.detach(), n_docs=PASSAGES, num_beams=beams, max_new_tokens=6, do_sample=False)
    write(name, model, {"input_ids": question, "attention_mask": question_mask, "labels": labels,
                        "document_embeddings": documents, **{k: v for k, v in common.items() if k != "doc_scores"}}, outputs)


if __name__ == "__main__":
    seed(6)
    hf.utils.logging.disable_progress_bar()
    fid()
    encoders()
    rag("rag_sequence", hf.RagSequenceForGeneration)
    rag("rag_token", hf.RagTokenForGeneration)
