"""Small models of heed's own types, from the plain PyTorch of own_models.py: generate_own.py [NAME…]."""

import json
import sys
import zlib

import torch

from common import HERE, save, seed
from generate_models import VOCAB, causal, classified, masked, randomize, tokens
from own_models import Encoder

SIZES = dict(vocab_size=VOCAB, d_model=12, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=20,
             max_position_embeddings=10, dropout=0.1)
TUTORIAL = dict(attention_bias=False, final_norm=True)
PERFORMER = dict(model_type="heed-performer", num_random_features=10)


def untyped():
    inputs = masked()
    del inputs["token_type_ids"]
    return inputs


# name: configuration, inputs
CASES = {
    "heed_encoder": (dict(model_type="heed-encoder", head="none", **TUTORIAL), tokens),
    "heed_encoder_mlm": (dict(model_type="heed-encoder", head="mlm", **TUTORIAL), untyped),
    "heed_encoder_lm": (dict(model_type="heed-encoder", head="lm", pre_norm=True, tie_word_embeddings=False), causal),
    "heed_sentiment": (dict(model_type="heed-sentiment", num_labels=3, classifier_hidden_size=7, **TUTORIAL),
                       lambda: classified(3)),
    "heed_performer_mlm": (dict(head="mlm", pre_norm=True, final_norm=True, **PERFORMER), untyped),
    # Longer than the chunks of the causal form.
    "heed_performer_lm": ({**PERFORMER, **TUTORIAL, "head": "lm", "max_position_embeddings": 40},
                          lambda: causal(length=35, real=20)),
    "heed_performer_classify": (dict(head="classify", num_labels=4, pre_norm=True, **PERFORMER), lambda: classified(4)),
}


def write(name, changes, inputs_of):
    config = {**SIZES, **changes}
    model = Encoder(config)
    randomize(model)
    for parameter in model.parameters():  # the reference is computed in double precision from what the file holds
        parameter.data = parameter.data.double()
    for buffer in model.buffers():
        buffer.data = buffer.data.double()
    inputs = inputs_of()
    outputs = model(**inputs)
    folder = HERE / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tied = config.get("tie_word_embeddings", True) and config.get("head") in ("mlm", "lm")
    stored = {key: value for key, value in model.state_dict().items() if not (tied and key == "lm_head.weight")}
    save(folder / "model.safetensors", stored, format="pt")
    save(folder / "inputs.safetensors", inputs)
    save(folder / "outputs.safetensors", outputs)
    if "loss" in outputs:
        outputs["loss"].backward()
        save(folder / "grads.safetensors", {key: value.grad for key, value in model.named_parameters()})


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        seed(zlib.crc32(name.encode()))
        write(name, *CASES[name])
