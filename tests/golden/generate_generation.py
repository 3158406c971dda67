"""Greedy and beam-search decoding by Hugging Face's `generate` on small random models."""

import copy
import json

import torch
import transformers as hf

from common import HERE, seed
from generate_models import gpt2, marian, save_model, t5

NEW_TOKENS, BEAMS = 20, 4
VOCAB = 23
SETTINGS = [{"length_penalty": penalty, "early_stopping": early} for penalty in (1.0, 0.6) for early in (False, True)]

# name: model class, configuration, seed; the seeds give decodings that differ in length and end both ways.
CASES = {
    "gpt2": (hf.GPT2LMHeadModel,
             lambda: gpt2(vocab_size=VOCAB, n_positions=32, n_embd=16, n_head=2, n_inner=24, pad_token_id=0), 85),
    "t5": (hf.T5ForConditionalGeneration, lambda: t5(vocab_size=VOCAB, d_kv=4, d_ff=24), 9),
    "marian": (hf.MarianMTModel, lambda: marian(vocab_size=VOCAB, max_position_embeddings=32), 85),
}


STDS = {".fc": 0.9, ".mlp.": 0.9, ".DenseReluDense.": 0.9, "out_proj": 0.15, "attn.c_proj": 0.15, "Attention.o.": 0.15}


def sharpen(model):
    """Large weights where steps differ (feed-forward) and small ones where they do not (attention's output), so that
    decoding wanders instead of repeating itself."""
    for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
        if parameter.dim() > 1 and "embed_positions" not in name and parameter.is_floating_point():
            torch.nn.init.normal_(parameter, std=next((std for part, std in STDS.items() if part in name), 0.35))


def trimmed(sequence, start, eos):
    """The new tokens, up to and with the first end-of-sequence."""
    ids = sequence[start:].tolist()
    return ids[:ids.index(eos) + 1] if eos in ids else ids


def decode(model, prompt, **options):
    ids = torch.tensor([prompt])
    result = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS,
                            do_sample=False, return_dict_in_generate=True, output_scores=True, **options)
    start = 1 if model.config.is_encoder_decoder else len(prompt)
    found = [trimmed(sequence, start, model.config.eos_token_id) for sequence in result.sequences]
    return found, result.sequences_scores.tolist() if "sequences_scores" in result else None


def decode_all(model, prompts):
    beams = []
    for setting in SETTINGS:
        results = []
        for prompt in prompts:
            found, scores = decode(model, prompt, num_beams=BEAMS, num_return_sequences=BEAMS, **setting)
            results.append([{"ids": ids, "score": score} for ids, score in zip(found, scores)])
        beams.append({"num_beams": BEAMS, **setting, "results": results})
    return {"greedy": [decode(model, prompt, num_beams=1)[0][0] for prompt in prompts], "beams": beams}


def only_ids(expected):
    beams = [[[hypothesis["ids"] for hypothesis in result] for result in run["results"]] for run in expected["beams"]]
    return expected["greedy"], beams


def check_robust(model, prompts, expected):
    """Rounding must not decide: slightly other weights decode to the same ids."""
    for _ in range(3):
        twin = copy.deepcopy(model)
        for parameter in twin.parameters():
            parameter.data *= 1 + 1e-5 * torch.randn_like(parameter)
        assert only_ids(decode_all(twin, prompts)) == only_ids(expected)


def write(name, build, config_of, number):
    seed(number)
    config = config_of()
    config._attn_implementation = "eager"
    model = build(config).eval()
    sharpen(model)
    prompts = [torch.randint(3, VOCAB, (length,)).tolist() for length in (2, 5, 8)]
    expected = decode_all(model, prompts)
    check_robust(model, prompts, expected)
    folder = HERE / "generation" / name
    save_model(model, folder)
    text = json.dumps({"max_new_tokens": NEW_TOKENS, "inputs": prompts, **expected}, separators=(",", ":"))
    (folder / "expected.json").write_text(text.replace('{"ids"', '\n{"ids"') + "\n")


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    for name, case in CASES.items():
        write(name, *case)
