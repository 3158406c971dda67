"""Random configurations of every family against transformers: compare_families.py HEED [--seeds N] [--only NAME…].

Each one gets random sizes, options and weights; `heed forward --attentions --hidden-states --grads` must give what
transformers gives, or refuse the configuration by name. Not part of the test suite: it needs transformers.
"""

import argparse
import copy
import json
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from generate_models import checkpoint_names, outputs_of, randomize, whole_maps

LIMIT = 1e-4  # of the norm
ACTIVATIONS = ["gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh", "quick_gelu", "tanh"]
pick = random.choice


def sizes(**changes):
    heads = pick([1, 2, 3, 4])
    return {**dict(vocab_size=random.randint(20, 60), hidden_size=heads * pick([6, 8, 10]), num_hidden_layers=pick([1, 2, 3]),
                   num_attention_heads=heads, intermediate_size=random.randint(5, 40), hidden_act=pick(ACTIVATIONS)),
            **changes}


def batch(length, vocab, low=5, padding=0, side=None, masked=True):
    """Ids with padding behind (or in front) of some rows."""
    rows = random.randint(1, 3)
    ids, mask = torch.randint(low, vocab, (rows, length)), torch.ones(rows, length, dtype=torch.int64)
    for row in range(1, rows):
        real = random.randint(max(1, length // 2), length)
        if side == "left":
            mask[row, :length - real] = 0
        else:
            mask[row, real:] = 0
    inputs = {"input_ids": ids.masked_fill(mask == 0, padding)}
    return {**inputs, "attention_mask": mask} if masked else {"input_ids": ids}


def real_of(inputs):
    return inputs.get("attention_mask", torch.ones_like(inputs["input_ids"]))


def token_labels(inputs, count, low=0):
    ids = inputs["input_ids"]
    hidden = (torch.rand(ids.shape) < 0.4) | (real_of(inputs) == 0)
    hidden[0, 1:3] = False
    return {**inputs, "labels": torch.randint(low, count, ids.shape).masked_fill(hidden, -100)}


def class_labels(inputs, config):
    rows = len(next(iter(inputs.values())))
    if config.problem_type == "multi_label_classification":
        return {**inputs, "labels": torch.randint(0, 2, (rows, config.num_labels)).float()}
    if config.num_labels == 1 or config.problem_type == "regression":
        shape = (rows,) if config.num_labels == 1 else (rows, config.num_labels)
        return {**inputs, "labels": torch.randn(shape)}
    return {**inputs, "labels": torch.randint(0, config.num_labels, (rows,))}


def answers(inputs):
    rows, length = inputs["input_ids"].shape
    start = torch.randint(0, length, (rows,))
    end = torch.randint(0, length + 2, (rows,))
    end[0] = min(int(end[0]), length - 1)  # a batch without any answer has no loss
    return {**inputs, "start_positions": start, "end_positions": end}


def problem():
    return pick([dict(num_labels=random.randint(2, 5)), dict(num_labels=1),
                 dict(num_labels=3, problem_type="multi_label_classification"),
                 dict(num_labels=2, problem_type="regression")])


def encoder(family, config_class, padding, length=(3, 14), padded=True, extra=lambda: {}, types=True, without=()):
    """A BERT-like family with one of its heads."""
    heads = [each for each in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
                               "ForQuestionAnswering") if hasattr(hf, family + each)]

    def case():
        head = pick(heads)
        base = sizes(max_position_embeddings=random.randint(length[1] + 2, length[1] + 20), pad_token_id=padding,
                     layer_norm_eps=pick([1e-12, 1e-5, 1e-3]))
        base = {key: value for key, value in base.items() if key not in without}
        base |= problem() if "Sequence" in head else {}
        base |= dict(num_labels=random.randint(2, 5)) if "Token" in head else {}
        given = extra()
        config = config_class(**{**base, **given})
        inputs = batch(random.randint(*length), config.vocab_size, padding=padding, masked=padded)
        if types and config.type_vocab_size > 1 and pick([True, False]):
            inputs["token_type_ids"] = torch.randint(0, config.type_vocab_size, inputs["input_ids"].shape)
        if head == "ForMaskedLM":
            inputs = token_labels(inputs, config.vocab_size)
        elif head == "ForSequenceClassification":
            inputs = class_labels(inputs, config)
        elif head == "ForTokenClassification":
            inputs = token_labels(inputs, config.num_labels)
        elif head == "ForQuestionAnswering":
            inputs = answers(inputs)
        if family == "BigBird" and head == "ForQuestionAnswering":  # a question and a text that holds the answer
            inputs["input_ids"][:, 2] = 3
            inputs["start_positions"] = inputs["start_positions"].clamp(min=3)
            inputs["end_positions"] = inputs["end_positions"].clamp(min=3)
        if family == "Longformer" and head == "ForQuestionAnswering":  # three separators, as its reference counts on
            inputs["input_ids"][:, 2] = inputs["input_ids"][:, 3] = inputs["input_ids"][:, 5] = 2
            inputs["attention_mask"][:, :6] = 1
        if family == "Longformer" and head != "ForQuestionAnswering" and pick([True, False]):
            inputs["global_attention_mask"] = (torch.rand(inputs["input_ids"].shape) < 0.2).long()
        return getattr(hf, family + head), config, inputs
    return case


def decoder(family, config_class, extra=lambda: {}, rename={}, without=(), heads=None):
    heads = heads or [each for each in ("ForCausalLM", "Model", "ForSequenceClassification", "ForTokenClassification")
             if hasattr(hf, family + each)]

    def case():
        head = pick(heads)
        base = sizes(max_position_embeddings=random.randint(16, 40), pad_token_id=0, bos_token_id=1, eos_token_id=2)
        heads_count = base["num_attention_heads"]
        base["num_key_value_heads"] = pick([each for each in range(1, heads_count + 1) if heads_count % each == 0])
        base["tie_word_embeddings"] = pick([True, False])
        base["hidden_size"] = heads_count * pick([4, 8, 12])
        base |= problem() if "Sequence" in head else {}
        base |= dict(num_labels=random.randint(2, 5)) if "Token" in head else {}
        base |= extra() if extra.__code__.co_argcount == 0 else extra(base)
        base = {rename.get(key, key): value for key, value in base.items() if key not in without}
        config = config_class(**base)
        inputs = batch(random.randint(2, 15), config.vocab_size, side=pick([None, None, "left"]))
        if head == "ForCausalLM":
            real = inputs["attention_mask"]
            # A padded position predicts nothing: what attends to no key at all is left open.
            behind_padding = real * (1 - torch.nn.functional.pad(real, (1, 0), value=1)[:, :-1])
            inputs["labels"] = inputs["input_ids"].masked_fill((real == 0) | (behind_padding == 1), -100)
        elif head == "ForSequenceClassification":
            inputs = class_labels(inputs, config)
        elif head == "ForTokenClassification":
            inputs = token_labels(inputs, config.num_labels)
        return getattr(hf, family + head), config, inputs
    return case


def seq2seq(family, config_class, extra=lambda: {}, positions=True, heads=None, source=(4, 14)):
    heads = heads or [each for each in ("ForConditionalGeneration", "MTModel", "Model", "ForSequenceClassification",
                                        "ForQuestionAnswering") if hasattr(hf, family + each)]

    def case():
        head = pick(heads)
        count = pick([1, 2, 4])
        base = dict(vocab_size=random.randint(20, 60), d_model=count * pick([6, 8, 10]), encoder_layers=pick([1, 2]),
                    decoder_layers=pick([1, 2, 3]), encoder_attention_heads=count, decoder_attention_heads=pick([1, count]),
                    encoder_ffn_dim=random.randint(5, 30), decoder_ffn_dim=random.randint(5, 30),
                    activation_function=pick(ACTIVATIONS), scale_embedding=pick([True, False]), pad_token_id=0,
                    bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, dropout=0.1)
        base |= dict(max_position_embeddings=random.randint(20, 40)) if positions else {}
        base |= problem() if "Sequence" in head else {}
        config = config_class(**{**base, **extra()})
        inputs = batch(random.randint(*source), config.vocab_size)
        if "Sequence" in head:
            for row, real in zip(inputs["input_ids"], inputs["attention_mask"].sum(1)):
                row[random.randint(0, real - 1)] = 2
            # transformers wants as many end tokens in every row
            return getattr(hf, family + head), config, class_labels(inputs, config)
        if "Question" in head:
            return getattr(hf, family + head), config, answers(inputs)
        if family == "LED" and pick([True, False]):
            inputs["global_attention_mask"] = (torch.rand(inputs["input_ids"].shape) < 0.2).long()
        rows, length = len(inputs["input_ids"]), random.randint(2, 9)
        target = torch.randint(5, config.vocab_size, (rows, length))
        if head == "Model":
            inputs["decoder_input_ids"] = target
        else:
            inputs["labels"] = target
            if pick([True, False]):
                inputs["decoder_input_ids"] = torch.randint(5, config.vocab_size, (rows, length))
        return getattr(hf, family + head), config, inputs
    return case


def vision(family, config_class, extra=lambda: {}, heads=("Model", "ForImageClassification"), any_size=False):
    def case():
        head = pick(heads)
        patch = pick([2, 3, 4])
        side = patch * random.randint(2, 4)
        base = {key: value for key, value in sizes().items() if key != "vocab_size"}
        base |= dict(image_size=side, patch_size=patch, num_channels=pick([1, 3]), layer_norm_eps=pick([1e-12, 1e-5, 1e-3]))
        base |= problem() if "Class" in head else {}
        given = extra()
        if "num_heads" in given:  # Swin has sizes of its own for every stage
            base = {key: value for key, value in base.items() if not key.startswith("num_") or key in ("num_channels", "num_labels")}
        config = config_class(**{**base, **given})
        side = config.image_size
        pixels = {"pixel_values": torch.randn(random.randint(1, 3), config.num_channels, side, side)}
        return getattr(hf, family + head), config, class_labels(pixels, config) if "Class" in head else pixels
    return case


def towers(family, text_class, image_class, config_class):
    def case():
        text = {**sizes(), "max_position_embeddings": random.randint(12, 20), "bos_token_id": 1, "pad_token_id": 0,
                "eos_token_id": pick([2, 4])}
        patch = pick([2, 3, 4])
        image = {key: value for key, value in sizes().items() if key != "vocab_size"}
        image |= dict(image_size=patch * pick([1, 2, 3]) + pick([0, 1]), patch_size=patch, num_channels=pick([1, 3]))
        if family == "Siglip":
            text["projection_size"] = image["hidden_size"]
            extra = {}
        else:
            extra = dict(projection_dim=random.randint(3, 9))
            text |= extra
            image |= extra
        pixels = torch.randn(3, image["num_channels"], image["image_size"], image["image_size"])
        texts = batch(random.randint(3, 11), text["vocab_size"])
        kind = pick(["Model", "TextModel", "VisionModel", "ForImageClassification"]
                    + ([] if family == "Siglip" else ["TextModelWithProjection", "VisionModelWithProjection"]))
        if kind.startswith("Text"):
            return getattr(hf, family + kind), text_class(**text), texts
        if kind.startswith("Vision"):
            return getattr(hf, family + kind), image_class(**image), {"pixel_values": pixels}
        config = config_class(text_config=text, vision_config=image, **extra, **(problem() if "Class" in kind else {}))
        if "Class" in kind:
            return getattr(hf, family + kind), config, class_labels({"pixel_values": pixels}, config)
        rows = len(texts["input_ids"])
        return getattr(hf, family + kind), config, {**texts, "pixel_values": pixels[:rows], "return_loss": True}
    return case


def rope(base, kinds=("default", "linear", "dynamic", "llama3", "yarn", "longrope", None), part=1.0):
    """A rotary scaling of one of the kinds; `part` of a head is rotated."""
    kind = pick(kinds)
    if kind is None:
        return {}
    known = {"rope_type": kind, "rope_theta": pick([10000.0, 500000.0, 100.0])}
    more = {}
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        known["factor"] = pick([1.5, 2.0, 8.0])
    if kind == "dynamic" and pick([True, False]):  # inputs of up to 15 tokens go beyond
        known["factor"], more = pick([2.0, 4.0]), {"max_position_embeddings": pick([8, 11])}
    if kind == "llama3":
        known |= dict(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
    if kind == "yarn":
        known |= dict(original_max_position_embeddings=8)
        known |= pick([{}, {}, dict(attention_factor=0.7), dict(beta_fast=8.0, beta_slow=2.0), dict(truncate=False),
                       dict(mscale=0.7, mscale_all_dim=0.4), dict(mscale=1.3)])
    if kind == "longrope":
        pairs = int(base.get("head_dim", base["hidden_size"] // base["num_attention_heads"]) * part) // 2
        known |= {name: [round(random.uniform(1, 5), 3) for _ in range(pairs)] for name in ("short_factor", "long_factor")}
        known |= dict(original_max_position_embeddings=pick([6, 16]))
        known |= pick([{}, dict(attention_factor=1.2), dict(factor=3.0)])
    if part != 1.0:
        known["partial_rotary_factor"] = part
    return {"rope_parameters": known, **more}


def layer_kinds(base):
    """Which layers have a window, said one by one."""
    return pick([{}, {"layer_types": [pick(["full_attention", "sliding_attention"])
                                      for _ in range(base["num_hidden_layers"])]}])


def with_rope(base, given, part=1.0):
    """Options of a family and a rotary scaling that fits them."""
    return given | rope({**base, **given}, part=part)


def phi3_extra(base):
    part = pick([1.0, 0.5])
    scaled = rope(base, ("default", "longrope", None), part)
    original = scaled.get("rope_parameters", {}).get("original_max_position_embeddings", 16)
    return dict(sliding_window=pick([None, 4]), original_max_position_embeddings=original, **scaled)


def gemma3_extra(base):
    given = dict(head_dim=pick([4, 6]), sliding_window=pick([3, 8]), query_pre_attn_scalar=7,
                 final_logit_softcapping=pick([None, 3.0]), attention_bias=pick([True, False]), **layer_kinds(base))
    whole = rope({**base, **given}, ("linear", "yarn", "default", "llama3")) if pick([True, False]) else {}
    if whole:
        given["rope_parameters"] = {"full_attention": whole["rope_parameters"],
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}
    return given


def nystromformer_case():
    length = pick([6, 8, 12])
    return encoder("Nystromformer", hf.NystromformerConfig, 0, length=(length, length), padded=pick([True, False]),
                   extra=lambda: dict(num_landmarks=pick([2, 3, length]) if length % 3 == 0 else pick([2, 4, length]),
                                      segment_means_seq_len=length, conv_kernel_size=pick([3, 5, 9]),
                                      type_vocab_size=pick([1, 2])))()


def swin_extra():
    stages = pick([1, 2, 3])
    side, patch = pick([8, 12, 16, 24]), pick([1, 2])
    heads = [pick([1, 2]) for _ in range(stages)]
    window = random.randint(1, max(1, side // patch // 2 ** (stages - 1)))
    return dict(image_size=side, patch_size=patch, embed_dim=pick([4, 8]), depths=[pick([1, 2, 3]) for _ in range(stages)],
                num_heads=heads, window_size=window, mlp_ratio=pick([1.0, 2.5, 4.0]), qkv_bias=pick([True, False]),
                use_absolute_embeddings=pick([True, False]))


def falcon_extra(base):
    new = pick([True, False])
    given = dict(new_decoder_architecture=new, bias=pick([True, False]), parallel_attn=pick([True, False]) or new,
                 multi_query=pick([True, False]), alibi=pick([True, False]), num_kv_heads=base["num_key_value_heads"],
                 ffn_hidden_size=base["intermediate_size"], activation=base["hidden_act"],
                 num_ln_in_parallel_attn=pick([None, 1, 2]) if new else None)
    return given if given["alibi"] else with_rope(base, given)


def window_extra(*names):
    return {name: random.randint(2, 6) for name in names}


def tied_or_not():
    return dict(tie_word_embeddings=pick([True, True, False]))


def t5_case():
    head = pick(["ForConditionalGeneration", "EncoderModel", "ForSequenceClassification", "ForTokenClassification",
                 "ForQuestionAnswering", "Model"])
    config = hf.T5Config(vocab_size=random.randint(20, 60), d_model=pick([8, 12, 16]), d_kv=pick([3, 4, 6]),
                         d_ff=random.randint(5, 30), num_layers=pick([1, 2]), num_decoder_layers=pick([1, 3]),
                         num_heads=pick([1, 2, 3]), relative_attention_num_buckets=pick([4, 8, 32]),
                         relative_attention_max_distance=pick([8, 20, 128]), feed_forward_proj=pick(["relu", "gated-gelu", "gated-silu"]),
                         pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, tie_word_embeddings=pick([True, False]),
                         **(problem() if "Sequence" in head else {}))
    inputs = batch(random.randint(3, 12), config.vocab_size)
    build = getattr(hf, "T5" + head)
    if "Sequence" in head:
        for row, real in zip(inputs["input_ids"], inputs["attention_mask"].sum(1)):
            row[real - 1] = 1
        return build, config, class_labels(inputs, config)
    if "Token" in head:
        return build, config, token_labels(inputs, config.num_labels)
    if "Question" in head:
        return build, config, answers(inputs)
    rows, length = len(inputs["input_ids"]), random.randint(2, 9)
    if head == "Model":
        inputs["decoder_input_ids"] = torch.randint(5, config.vocab_size, (rows, length))
    elif head == "ForConditionalGeneration":
        inputs["labels"] = torch.randint(5, config.vocab_size, (rows, length))
    return build, config, inputs


def whisper_case():
    count = pick([1, 2, 3])
    config = hf.WhisperConfig(vocab_size=random.randint(20, 60), num_mel_bins=pick([4, 7, 10]), d_model=count * pick([4, 8]),
                              encoder_layers=pick([1, 2]), decoder_layers=pick([1, 2]), encoder_attention_heads=count,
                              decoder_attention_heads=pick([1, count]), encoder_ffn_dim=random.randint(5, 30),
                              decoder_ffn_dim=random.randint(5, 30), activation_function=pick(ACTIVATIONS),
                              scale_embedding=pick([True, False]), max_source_positions=random.randint(4, 12),
                              max_target_positions=random.randint(12, 20), pad_token_id=3, bos_token_id=1, eos_token_id=2,
                              decoder_start_token_id=1, tie_word_embeddings=pick([True, False]))
    rows = random.randint(1, 3)
    inputs = {"input_features": torch.randn(rows, config.num_mel_bins, 2 * config.max_source_positions)}
    build = pick([hf.WhisperForConditionalGeneration, hf.WhisperForConditionalGeneration, hf.WhisperModel])
    if build is hf.WhisperModel:
        return build, config, {**inputs, "decoder_input_ids": torch.randint(4, config.vocab_size, (rows, 7))}
    return build, config, {**inputs, "labels": torch.randint(4, config.vocab_size, (rows, random.randint(2, 9)))}


FAMILIES = {
    "bert": encoder("Bert", hf.BertConfig, 0, extra=lambda: dict(type_vocab_size=pick([1, 2, 4]))),
    "distilbert": encoder("DistilBert", hf.DistilBertConfig, 0, types=False,
                          without=("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                   "hidden_act", "layer_norm_eps"),
                          extra=lambda: dict(dim=12, n_heads=pick([1, 2, 3]), n_layers=pick([1, 2]),
                                             hidden_dim=random.randint(5, 30), activation=pick(["gelu", "relu"]),
                                             sinusoidal_pos_embds=pick([True, False]))),
    "roberta": encoder("Roberta", hf.RobertaConfig, 1, extra=lambda: dict(type_vocab_size=pick([1, 2]))),
    "xlm-roberta": encoder("XLMRoberta", hf.XLMRobertaConfig, 1, extra=lambda: dict(type_vocab_size=pick([1, 2]))),
    "camembert": encoder("Camembert", hf.CamembertConfig, 1, extra=lambda: dict(type_vocab_size=1)),
    "electra": encoder("Electra", hf.ElectraConfig, 0, extra=lambda: dict(embedding_size=pick([6, 8, 12]))),
    "mpnet": encoder("MPNet", hf.MPNetConfig, 1, types=False,
                     extra=lambda: dict(relative_attention_num_buckets=pick([32, 40]))),
    "albert": encoder("Albert", hf.AlbertConfig, 0,
                      extra=lambda: dict(embedding_size=pick([6, 10]), num_hidden_groups=1, inner_group_num=pick([1, 2]))),
    "modernbert": encoder("ModernBert", hf.ModernBertConfig, 0, types=False, without=("hidden_act", "layer_norm_eps"),
                          extra=lambda: dict(hidden_size=24, num_attention_heads=pick([1, 2, 3]), local_attention=pick([8, 16]),
                                             global_attn_every_n_layers=pick([1, 2, 3]), norm_bias=pick([True, False]),
                                             mlp_bias=pick([True, False]), attention_bias=pick([True, False]),
                                             classifier_pooling=pick(["cls", "mean"]), bos_token_id=1, eos_token_id=2,
                                             cls_token_id=1, sep_token_id=2)),
    "deberta-v2": encoder("DebertaV2", hf.DebertaV2Config, 0, types=False,
                          extra=lambda: dict(type_vocab_size=0, relative_attention=pick([True, False]),
                                             position_buckets=pick([-1, 4, 8]), max_relative_positions=pick([-1, 6]),
                                             pos_att_type=pick(["p2c|c2p", "c2p", "p2c"]),
                                             share_att_key=pick([True, False]), norm_rel_ebd=pick(["layer_norm", "none"]),
                                             position_biased_input=pick([True, False]),
                                             conv_kernel_size=pick([0, 3]), conv_act="gelu")),
    "longformer": encoder("Longformer", hf.LongformerConfig, 1, length=(8, 24), types=False,
                          extra=lambda: dict(attention_window=pick([2, 4, 8]), type_vocab_size=1, sep_token_id=2)),
    "big_bird": encoder("BigBird", hf.BigBirdConfig, 0, length=(8, 30),
                        extra=lambda: dict(block_size=2, num_random_blocks=1, use_bias=pick([True, False]),
                                           rescale_embeddings=pick([True, False]), bos_token_id=1, eos_token_id=2,
                                           sep_token_id=3)),
    "fnet": encoder("FNet", hf.FNetConfig, 0, padded=False, without=("num_attention_heads",),
                    extra=lambda: dict(type_vocab_size=pick([1, 2, 4]))),
    "nystromformer": nystromformer_case,
    "gpt2": decoder("GPT2", hf.GPT2Config,
                    rename=dict(hidden_size="n_embd", num_hidden_layers="n_layer", num_attention_heads="n_head",
                                intermediate_size="n_inner", max_position_embeddings="n_positions",
                                hidden_act="activation_function"), without=("num_key_value_heads",),
                    extra=lambda: dict(scale_attn_by_inverse_layer_idx=pick([True, False]),
                                       scale_attn_weights=pick([True, False]))),
    "llama": decoder("Llama", hf.LlamaConfig,
                     extra=lambda base: with_rope(base, dict(attention_bias=pick([True, False]), mlp_bias=pick([True, False]),
                                                             **pick([{}, {"head_dim": 6}])))),
    "mistral": decoder("Mistral", hf.MistralConfig,
                       extra=lambda base: with_rope(base, dict(sliding_window=pick([None, 3, 8]), head_dim=pick([4, 6])))),
    "qwen2": decoder("Qwen2", hf.Qwen2Config, extra=lambda base: dict(use_sliding_window=pick([True, False]), sliding_window=3,
                                                                      max_window_layers=pick([0, 1]), **layer_kinds(base), **rope(base))),
    "qwen3": decoder("Qwen3", hf.Qwen3Config,
                     extra=lambda base: with_rope(base, dict(head_dim=pick([4, 6]), attention_bias=pick([True, False]),
                                                             use_sliding_window=pick([True, False]), sliding_window=3,
                                                             max_window_layers=1, **layer_kinds(base)))),
    "gemma": decoder("Gemma", hf.GemmaConfig,
                     extra=lambda base: with_rope(base, dict(head_dim=pick([4, 6]), attention_bias=pick([True, False])))),
    "gemma2": decoder("Gemma2", hf.Gemma2Config, without=("hidden_act",),
                      extra=lambda base: with_rope(base, dict(head_dim=pick([4, 6]), sliding_window=pick([3, 8]),
                                                              query_pre_attn_scalar=7, **layer_kinds(base),
                                                              hidden_activation=pick(ACTIVATIONS),
                                                              attn_logit_softcapping=pick([None, 4.0]),
                                                              final_logit_softcapping=pick([None, 3.0])))),
    "gemma3_text": decoder("Gemma3", hf.Gemma3TextConfig, heads=["ForCausalLM", "TextModel"], without=("hidden_act",),
                           extra=gemma3_extra),
    "phi": decoder("Phi", hf.PhiConfig,
                   extra=lambda base: with_rope(base, dict(qk_layernorm=pick([True, False]), partial_rotary_factor=0.5,
                                                           hidden_size=8 * base["num_attention_heads"]), 0.5)),
    "phi3": decoder("Phi3", hf.Phi3Config, extra=phi3_extra),
    "smollm3": decoder("SmolLM3", hf.SmolLM3Config,
                       extra=lambda base: with_rope(base, dict(no_rope_layer_interval=pick([2, 4]), mlp_bias=pick([True, False]),
                                                               attention_bias=pick([True, False]),
                                                               use_sliding_window=pick([True, False]), sliding_window=4))),
    "olmo2": decoder("Olmo2", hf.Olmo2Config,
                     extra=lambda base: with_rope(base, dict(attention_bias=pick([True, False])))),
    "granite": decoder("Granite", hf.GraniteConfig,
                       extra=lambda base: with_rope(base, dict(embedding_multiplier=2.0, residual_multiplier=0.5,
                                                               attention_multiplier=0.3, logits_scaling=3.0,
                                                               attention_bias=pick([True, False]),
                                                               mlp_bias=pick([True, False])))),
    "exaone4": decoder("Exaone4", hf.Exaone4Config,
                       extra=lambda base: with_rope(base, dict(sliding_window=pick([3, 5, None]),
                                                               sliding_window_pattern=pick([2, 3, 4])))),
    "gpt_neox": decoder("GPTNeoX", hf.GPTNeoXConfig, without=("num_key_value_heads",),
                        extra=lambda base: with_rope(base, dict(use_parallel_residual=pick([True, False]),
                                                                attention_bias=pick([True, False]),
                                                                hidden_size=8 * base["num_attention_heads"]),
                                                     pick([0.25, 0.5]))),
    "gptj": decoder("GPTJ", hf.GPTJConfig, without=("num_key_value_heads",),
                    rename=dict(hidden_size="n_embd", num_hidden_layers="n_layer", num_attention_heads="n_head",
                                intermediate_size="n_inner", max_position_embeddings="n_positions",
                                hidden_act="activation_function"),
                    extra=lambda base: dict(rotary_dim=pick([2, 4]), hidden_size=8 * base["num_attention_heads"],
                                            tie_word_embeddings=False)),
    "bloom": decoder("Bloom", hf.BloomConfig, without=("num_key_value_heads", "intermediate_size", "hidden_act",
                                                       "max_position_embeddings"),
                     rename=dict(num_hidden_layers="n_layer", num_attention_heads="n_head"),
                     extra=lambda: dict(apply_residual_connection_post_layernorm=pick([True, False]))),
    "falcon": decoder("Falcon", hf.FalconConfig, extra=falcon_extra, without=("num_key_value_heads", "intermediate_size",
                                                                            "hidden_act")),
    "opt": decoder("OPT", hf.OPTConfig, without=("num_key_value_heads",),
                   rename=dict(intermediate_size="ffn_dim", hidden_act="activation_function"),
                   extra=lambda base: dict(word_embed_proj_dim=pick([base["hidden_size"], 6]),
                                           do_layer_norm_before=pick([True, False]), enable_bias=pick([True, False]),
                                           layer_norm_elementwise_affine=pick([True, False]))),
    "starcoder2": decoder("Starcoder2", hf.Starcoder2Config,
                          extra=lambda base: with_rope(base, dict(sliding_window=pick([None, 3]),
                                                                  use_bias=pick([True, False])))),
    "bart": seq2seq("Bart", hf.BartConfig, extra=tied_or_not),
    "mbart": seq2seq("MBart", hf.MBartConfig, extra=tied_or_not),
    "m2m_100": seq2seq("M2M100", hf.M2M100Config, extra=tied_or_not),
    "pegasus": seq2seq("Pegasus", hf.PegasusConfig, extra=tied_or_not),
    "marian": seq2seq("Marian", hf.MarianConfig, extra=tied_or_not),
    "led": seq2seq("LED", hf.LEDConfig, positions=False, source=(8, 20),
                   extra=lambda: dict(max_encoder_position_embeddings=32, max_decoder_position_embeddings=24,
                                      attention_window=pick([2, 4, 6]))),
    "t5": t5_case, "whisper": whisper_case,
    "vit": vision("ViT", hf.ViTConfig, extra=lambda: dict(qkv_bias=pick([True, False]))),
    "deit": vision("DeiT", hf.DeiTConfig, extra=lambda: dict(qkv_bias=pick([True, False]))),
    "dinov2": vision("Dinov2", hf.Dinov2Config, extra=lambda: dict(mlp_ratio=pick([1, 2, 3]), layerscale_value=0.7,
                                                                   use_swiglu_ffn=pick([True, False]),
                                                                   qkv_bias=pick([True, False]))),
    "dinov2_with_registers": vision("Dinov2WithRegisters", hf.Dinov2WithRegistersConfig,
                                    extra=lambda: dict(mlp_ratio=pick([1, 2, 3]), layerscale_value=0.7,
                                                       use_swiglu_ffn=pick([True, False]), qkv_bias=pick([True, False]),
                                                       num_register_tokens=pick([1, 2, 5]))),
    "beit": vision("Beit", hf.BeitConfig, extra=lambda: dict(use_relative_position_bias=pick([True, False]),
                                                             use_absolute_position_embeddings=pick([True, False]),
                                                             use_mean_pooling=pick([True, False]),
                                                             use_shared_relative_position_bias=pick([True, False]),
                                                             layer_scale_init_value=pick([0.0, 0.1]))),
    "swin": vision("Swin", hf.SwinConfig, extra=swin_extra),
    "clip": towers("CLIP", hf.CLIPTextConfig, hf.CLIPVisionConfig, hf.CLIPConfig),
    "siglip": towers("Siglip", hf.SiglipTextConfig, hf.SiglipVisionConfig, hf.SiglipConfig),
}

ACTS = sorted(hf.activations.ACT2FN.keys())
UNTOUCHED = {"transformers_version", "architectures", "model_type", "dtype", "torch_dtype", "_name_or_path", "problem_type",
             "id2label", "label2id", "output_hidden_states", "output_attentions", "return_dict", "chunk_size_feed_forward",
             "use_cache", "vocab_size", "num_labels", "stage_names", "out_features", "out_indices", "is_encoder_decoder",
             "_attn_implementation", "attn_implementation", "_sliding_window_pattern"}
CHOICES = {"attention_type": ["original_full"], "classifier_pooling": ["cls", "mean", "max"], "norm_rel_ebd": ["none", "layer_norm"],
           "pos_att_type": ["c2p", "p2c", "c2p|p2c", ["c2p"], []], "summary_type": ["first", "last", "mean", "cls_index"],
           "sliding_window": [None, 1, 2, 100], "head_dim": [2, 4, 10, 16], "num_ln_in_parallel_attn": [None, 1, 2],
           "attn_logit_softcapping": [None, 2.0], "final_logit_softcapping": [None, 2.0], "num_key_value_heads": [1, None],
           "feed_forward_proj": ["relu", "gated-gelu", "gated-silu", "gelu"], "classifier_dropout": [None, 0.3],
           "use_bidirectional_attention": [None, True], "summary_activation": [None, "tanh"], "n_inner": [None, 11],
           "ffn_hidden_size": [None], "num_kv_heads": [None, 1], "intermediate_size": [None, 7], "image_size": [[8, 12]],
           "rope_parameters": [{"rope_type": kind, "rope_theta": 1000.0, **extra} for kind, extra in (
               ("default", {}), ("linear", {"factor": 3.0}), ("dynamic", {"factor": 3.0}),
               ("yarn", {"factor": 4.0, "original_max_position_embeddings": 4}),
               ("yarn", {"factor": 4.0, "original_max_position_embeddings": 4, "attention_factor": 0.7}),
               ("yarn", {"factor": 4.0, "original_max_position_embeddings": 4, "beta_fast": 8.0, "beta_slow": 2.0}),
               ("yarn", {"factor": 4.0, "original_max_position_embeddings": 4, "mscale": 0.7, "mscale_all_dim": 0.4}),
               ("yarn", {"factor": 4.0, "original_max_position_embeddings": 4, "truncate": False}),
               ("llama3", {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 8}),
               ("proportional", {"partial_rotary_factor": 0.5}), ("default", {"partial_rotary_factor": 0.5}))]}


def alternatives(key, value):
    """Other values for an option."""
    if key in UNTOUCHED:
        return []
    if key in CHOICES:
        return [each for each in CHOICES[key] if each != value]
    if key.endswith(("_act", "activation", "activation_function")):
        return random.sample(ACTS, 2)
    if key.endswith("_token_id"):
        return [None, 4]
    if key == "layer_types":
        return [[pick(["full_attention", "sliding_attention"]) for _ in value or []] for _ in range(2)]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value + 0.25]
    return [] if value is not None else [True, 1]


def changes(config, prefix=()):
    """Every option of a configuration with another value: [(path, value)]."""
    found = []
    for key, value in config.to_dict().items() if hasattr(config, "to_dict") else config.items():
        if key in ("text_config", "vision_config", "encoder", "decoder") and isinstance(value, dict):
            found += changes(value, (key,))
        else:
            found += [((*prefix, key), each) for each in alternatives(key, value)]
    return found


def changed(config, path, value):
    """The configuration with another value, or None where transformers refuses it or keeps the old one."""
    options = config.to_dict()
    inner = options
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    for key in ("transformers_version", "architectures", "model_type", "_name_or_path"):
        options.pop(key, None)
    if path[-1] in ("num_hidden_layers", "sliding_window_pattern", "no_rope_layer_interval"):
        options.pop("layer_types", None), options.pop("no_rope_layers", None)
    return type(config)(**options)

WINDOWED = {"big_bird", "fnet", "nystromformer"}  # whose attentions are not [B, H, T, T]


def global_tokens(build, inputs):
    """Which tokens of a Longformer attend to all."""
    ids = inputs["input_ids"]
    if "global_attention_mask" in inputs:
        return inputs["global_attention_mask"]
    if build is hf.LongformerForSequenceClassification:
        return (torch.arange(ids.shape[1]) == 0).long().expand(len(ids), -1)
    if build is hf.LongformerForQuestionAnswering:
        return (torch.arange(ids.shape[1]) < (ids == 2).int().argmax(1, keepdim=True)).long()
    return None


def saved_again(heed, folder, build, inputs, expected, kernel):
    """What differs where transformers opens the folder that heed wrote of its own reading."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    done = subprocess.run([heed, "convert", folder, copy, "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"convert refused: {done.stderr.strip()[:300]}"]
    model, report = build.from_pretrained(copy, attn_implementation=kernel, output_loading_info=True)
    missing = [key for key in report["missing_keys"] if not key.endswith((".bias", "position_ids"))]
    if getattr(model.config, "tie_word_embeddings", True) is False:  # nothing reads it where both sides have their own
        missing = [key for key in missing if not key.endswith("shared.weight")]
    result = outputs_of(model.eval()(**inputs))
    problems = [f"saved: {missing} missing"] if missing else []
    for key in ("logits", "last_hidden_state", "start_logits", "logits_per_image"):
        if key in expected and not norm_error(result[key].detach(), expected[key].detach()) < LIMIT:
            problems.append(f"saved: {key} differs by {norm_error(result[key].detach(), expected[key].detach()):.2e}")
    return problems


def norm_error(actual, expected):
    scale = expected.double().norm()
    return ((actual.double() - expected.double()).norm() / (scale if scale > 0 else 1.0)).item()


def at_real(value, mask):
    """Without what belongs to padded positions."""
    if mask is None or value.dim() < 3 or value.shape[0] != mask.shape[0]:
        return value
    axis = value.dim() - 2
    if value.shape[axis] != mask.shape[1]:
        return value
    shape = [1] * value.dim()
    shape[0], shape[axis] = mask.shape
    return value * mask.reshape(shape)


def gradients_of(model, inputs, exact=False):
    """The loss's gradients by the checkpoint's names; `exact`: computed in f64."""
    if exact:
        model = copy.deepcopy(model).double()
        inputs = {key: value.double() if torch.is_tensor(value) and value.is_floating_point() else value
                  for key, value in inputs.items()}
    model.zero_grad()
    model(**inputs).loss.backward()
    zero = {key: torch.zeros_like(value) if value.grad is None else value.grad for key, value in model.named_parameters()}
    return checkpoint_names(model, zero)


def compare(name, seed, heed, folder, change=None):
    """What differs for the configuration of this seed; `change` sets one option of it to another value."""
    random.seed(f"{name} {seed}")
    torch.manual_seed(seed)
    build, config, inputs = FAMILIES[name]()
    if change:
        config = changed(config, *change)
        if config is None:
            return None
    # Falcon adds ALiBi twice in its eager attention, once in the other.
    kernel = "sdpa" if name == "falcon" and config.alibi else "eager"
    config._attn_implementation = kernel
    model = build(config).eval()
    attentions = name not in WINDOWED and kernel == "eager"
    if name not in WINDOWED and name not in ("longformer", "led"):
        model.set_attn_implementation(kernel)
    randomize(model)
    wanted = {"output_attentions": True} if attentions else {}
    result = model(**inputs, output_hidden_states=True, **wanted)
    expected = outputs_of(result)
    if name in ("longformer", "led"):
        expected = whole_maps(expected, inputs, "encoder_" if name == "led" else "", model.config.attention_window,
                              global_tokens(build, inputs))
    gradients = None
    if result.get("loss") is not None:
        gradients = gradients_of(model, inputs)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    given = {key: value if torch.is_tensor(value) else torch.tensor([value], dtype=torch.uint8)
             for key, value in inputs.items()}
    save_file({key: value.contiguous() for key, value in given.items()}, folder / "in.safetensors")
    command = [heed, "forward", folder, "--input", folder / "in.safetensors", "--output", folder / "out.safetensors",
               "--hidden-states", "--quiet"]
    command += ["--attentions"] if attentions else []
    command += ["--grads"] if gradients else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return [f"refused: {done.stderr.strip()[:300]}"]
    actual = load_file(folder / "out.safetensors")
    problems = []
    mask = inputs.get("attention_mask")
    for key, value in expected.items():
        if key in ("cls_logits", "distillation_logits"):
            continue
        if key not in actual:
            problems.append(f"{key} is missing")
            continue
        got = actual[key]
        if name == "big_bird" and key.startswith("hidden_states"):
            value = value[:, :got.shape[1]]
        if name == "deberta-v2" and key == "logits" and value.dim() == 1:  # its regression gives a row of numbers
            value = value.reshape(got.shape) if value.numel() == got.numel() else value
        if got.shape != value.shape:
            problems.append(f"{key} has {tuple(got.shape)}, not {tuple(value.shape)}")
            continue
        own = None if key.startswith(("decoder", "cross")) else mask
        error = norm_error(at_real(got, own), at_real(value.detach(), own))
        if not error < LIMIT:
            problems.append(f"{key} differs by {error:.2e}")
    if gradients:
        exact = None
        whole = sum(value.double().norm() ** 2 for value in gradients.values()) ** 0.5
        for key, value in gradients.items():
            got = actual.get(f"grad.{key}")
            if got is None:
                if value.norm() > 0:
                    problems.append(f"no gradient of {key}")
            elif value.double().norm() < 1e-6 * whole:
                if got.double().norm() > 1e-5 * whole:
                    problems.append(f"gradient of {key} should vanish")
            elif not norm_error(got, value) < LIMIT:
                exact = exact or gradients_of(model, inputs, exact=True)
                problems.append(f"gradient of {key} differs by {norm_error(got, value):.2e} (from f64: heed "
                                f"{norm_error(got, exact[key]):.2e}, transformers {norm_error(value, exact[key]):.2e})")
    return problems if change else problems + saved_again(heed, folder, build, inputs, expected, kernel)


def older(config):
    """The configuration as transformers 4 wrote it: rotary settings at the top, a pattern in place of layer_types."""
    old = dict(config)
    rope = old.pop("rope_parameters", None)
    kinds = old.pop("layer_types", None)
    if "dtype" in old:
        old["torch_dtype"] = old.pop("dtype")
    if rope and "full_attention" in rope:
        whole, local = rope["full_attention"], rope.get("sliding_attention", {})
        names = ("global_rope_theta", "local_rope_theta") if old["model_type"] == "modernbert" else ("rope_theta",
                                                                                                      "rope_local_base_freq")
        old |= dict(zip(names, (whole["rope_theta"], local.get("rope_theta", 10000.0))))
        rope = whole
    elif rope:
        old["rotary_emb_base" if old["model_type"] == "gpt_neox" else "rope_theta"] = rope["rope_theta"]
    if rope:
        if "partial_rotary_factor" in rope:
            old["rotary_pct" if old["model_type"] == "gpt_neox" else "partial_rotary_factor"] = rope["partial_rotary_factor"]
        rest = {key: value for key, value in rope.items() if key not in ("rope_theta", "partial_rotary_factor")}
        if rest.get("rope_type", "default") != "default":
            old["rope_scaling"] = {("type" if key == "rope_type" else key): value for key, value in rest.items()}
    if kinds and old["model_type"] == "modernbert":
        old["global_attn_every_n_layers"] = next((i for i in range(1, len(kinds)) if kinds[i] == "full_attention"), len(kinds))
    return old


def spellings(config):
    """Other ways to write config.json: [(what, configuration)]."""
    found = [("as transformers 4", older(config))]
    for key in config:
        if key not in ("model_type", "architectures"):
            found.append((f"without {key}", {each: value for each, value in config.items() if each != key}))
    if "id2label" in config:
        plain = {key: value for key, value in config.items() if key not in ("id2label", "label2id")}
        found.append(("num_labels", {**plain, "num_labels": len(config["id2label"])}))
    return found


def compare_spellings(name, seed, heed, folder):
    """What differs where config.json says the same in other words: heed reads it alike, or refuses it."""
    if problems := compare(name, seed, heed, folder):
        return problems
    file = folder / "config.json"
    written = json.loads(file.read_text())

    def meant():
        known = hf.AutoConfig.from_pretrained(folder).to_dict()
        return {key: value for key, value in known.items() if key not in ("transformers_version", "dtype", "_name_or_path")}
    meaning, expected = meant(), load_file(folder / "out.safetensors")
    command = [heed, "forward", folder, "--input", folder / "in.safetensors", "--output", folder / "again.safetensors",
               "--quiet"]
    problems = []
    for what, other in spellings(written):
        file.write_text(json.dumps(other))
        try:
            same = meant() == meaning
        except Exception:
            continue
        if not same:
            continue
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            problems.append(f"{what}: refused: {done.stderr.strip()[:200]}")
            continue
        again = load_file(folder / "again.safetensors")
        for key, value in again.items():
            if key in expected and not torch.equal(value, expected[key]):
                problems.append(f"{what}: {key} differs by {norm_error(value, expected[key]):.2e}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(FAMILIES))
    parser.add_argument("--options", action="store_true", help="change one option at a time as well")
    parser.add_argument("--spellings", action="store_true", help="write config.json in other ways that mean the same")
    parser.add_argument("--keys", nargs="*", help="only these options")
    parser.add_argument("--keep", help="folder for the last model, to look at")
    options = parser.parse_args()
    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(options.keep or tempfile.mkdtemp()) / "model"
    bad = 0
    count = 0
    for name in options.only:
        for seed in range(options.first, options.first + options.seeds):
            tries = [None]
            if options.options:
                random.seed(f"{name} {seed}")
                tries += [each for each in changes(FAMILIES[name]()[1]) if not options.keys or each[0][-1] in options.keys]
            for change in tries:
                said = f"{name} {seed}" + (f" {'.'.join(change[0])}={change[1]}" if change else "")
                try:
                    problems = (compare_spellings(name, seed, options.heed, folder) if options.spellings else
                                compare(name, seed, options.heed, folder, change))
                except Exception as error:  # transformers itself refuses some combinations
                    if not change:
                        print(f"{said}: transformers: {type(error).__name__}: {str(error)[:150]}")
                    continue
                count += 1
                if problems:
                    bad += 1
                    print(f"{said}: " + "; ".join(problems[:12 if options.spellings else 4]))
                    sys.stdout.flush()
    print(f"{bad} of {count} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
