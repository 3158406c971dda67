"""FiD and DPR: small random models with inputs, losses, logits, gradients and generated ids."""

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


if __name__ == "__main__":
    seed(6)
    hf.utils.logging.disable_progress_bar()
    fid()
    encoders()
