"""What transformers' logits processors leave of random logits, and beam search with penalties and early stopping."""

import json

import torch
import transformers as hf
from transformers.generation import logits_process as lp

from common import HERE, seed
from generate_generation import decode

VOCAB = 48
CASES = [
    {"temperature": 1.0},
    {"temperature": 0.3},
    {"temperature": 1.7, "top_k": 7},
    {"temperature": 1.0, "top_p": 0.8},
    {"temperature": 1.0, "min_p": 0.08},
    {"temperature": 1.0, "typical_p": 0.6},
    {"temperature": 0.7, "typical_p": 0.2},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.9},
    {"temperature": 1.0, "repetition_penalty": 1.4},
    {"temperature": 1.0, "repetition_penalty": 0.7},
    {"temperature": 1.0, "no_repeat_ngram_size": 1},
    {"temperature": 1.0, "no_repeat_ngram_size": 2},
    {"temperature": 1.0, "no_repeat_ngram_size": 3, "top_p": 0.7},
    {"temperature": 1.0, "logit_bias": {"3": 4.0, "11": -9.0}},
    {"temperature": 0.8, "logit_bias": {"5": 2.5}, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "top_k": 12},
]


def processors(case):
    """In the order of transformers' `_get_logits_processor`."""
    if "logit_bias" in case:
        yield lp.SequenceBiasLogitsProcessor({(int(id),): bias for id, bias in case["logit_bias"].items()})
    if "repetition_penalty" in case:
        yield lp.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])
    if "no_repeat_ngram_size" in case:
        yield lp.NoRepeatNGramLogitsProcessor(case["no_repeat_ngram_size"])
    yield lp.TemperatureLogitsWarper(case["temperature"])
    for name, make in (("top_k", lp.TopKLogitsWarper), ("top_p", lp.TopPLogitsWarper),
                       ("min_p", lp.MinPLogitsWarper), ("typical_p", lp.TypicalLogitsWarper)):
        if name in case:
            yield make(case[name])


def probabilities(case, tokens, logits):
    scores = torch.tensor([logits], dtype=torch.float64)
    ids = torch.tensor([tokens])
    for process in processors(case):
        scores = process(ids, scores)
    return torch.softmax(scores, -1)[0].tolist()


def sampling():
    seed(3)
    found = []
    for case in CASES:
        for length in (2, 9, 30):
            logits = [round(value, 4) for value in (torch.randn(VOCAB) * 2.5).tolist()]
            tokens = torch.randint(0, 6 if length > 9 else VOCAB, (length,)).tolist()
            kept = {str(id): round(p, 9) for id, p in enumerate(probabilities(case, tokens, logits)) if p > 0}
            found.append({"options": case, "tokens": tokens, "logits": logits, "probabilities": kept})
    return found


BEAMS = [
    {"early_stopping": "never", "length_penalty": 1.0},
    {"early_stopping": "never", "length_penalty": 0.0},
    {"early_stopping": False, "length_penalty": 1.0, "no_repeat_ngram_size": 2},
    {"early_stopping": True, "length_penalty": 0.6, "repetition_penalty": 1.5},
]


def beam_runs(name, load):
    folder = HERE / "generation" / name
    model = load.from_pretrained(folder).eval()
    prompts = json.loads((folder / "expected.json").read_text())["inputs"]
    runs = []
    for setting in BEAMS:
        results = []
        for prompt in prompts:
            ids, scores = decode(model, prompt, num_beams=4, num_return_sequences=4, **setting)
            results.append([{"ids": one, "score": score} for one, score in zip(ids, scores)])
        runs.append({"num_beams": 4, **setting, "results": results})
    return runs


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    expected = {"sampling": sampling(),
                "beams": {"gpt2": beam_runs("gpt2", hf.GPT2LMHeadModel),
                          "t5": beam_runs("t5", hf.T5ForConditionalGeneration),
                          "marian": beam_runs("marian", hf.MarianMTModel)}}
    text = json.dumps(expected, separators=(",", ":"))
    (HERE / "generation" / "sampling.json").write_text(text.replace('{"options"', '\n{"options"').replace('{"ids"', '\n{"ids"') + "\n")
