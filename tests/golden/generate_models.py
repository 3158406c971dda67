"""Small random Hugging Face models: checkpoint, inputs, every output, and the loss's gradients."""

import copy
import json
import shutil
import tempfile
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file

from common import HERE, rounded, save, seed

BATCH, LENGTH, VOCAB = 2, 8, 37


def randomize(model):
    """Larger than a fresh model's weights, so that attention is far from uniform."""
    for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
        if "embed_positions" in name or "embed_scale" in name or not parameter.is_floating_point() or "inv_freq" in name:
            continue
        is_norm_weight = parameter.dim() == 1 and name.endswith("weight")
        torch.nn.init.normal_(parameter, 1.0 if is_norm_weight else 0.0, 0.1 if parameter.dim() == 1 else 0.25)


def tokens(length=LENGTH, real=LENGTH - 3, vocab=VOCAB):
    """Two rows of ids, the second padded with zeros after `real`."""
    ids, mask = torch.randint(3, vocab, (BATCH, length)), torch.ones(BATCH, length, dtype=torch.int64)
    mask[1, real:] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def causal(**sizes):
    inputs = tokens(**sizes)
    return {**inputs, "labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


def masked(**sizes):
    inputs = tokens(**sizes)
    labels = torch.randint(3, VOCAB, inputs["input_ids"].shape)
    hidden = (torch.rand(labels.shape) < 0.5) & inputs["attention_mask"].bool()
    return {**inputs, "token_type_ids": segments(inputs), "labels": labels.masked_fill(~hidden, -100)}


def segments(inputs):
    return (torch.arange(LENGTH) >= 3).long() * inputs["attention_mask"]


def classified(labels, segmented=False):
    inputs = tokens()
    extra = {"token_type_ids": segments(inputs)} if segmented else {}
    return {**inputs, **extra, "labels": torch.randint(0, labels, (BATCH,))}


def tagged(labels):
    inputs = tokens()
    tags = torch.randint(0, labels, (BATCH, LENGTH)).masked_fill(inputs["attention_mask"] == 0, -100)
    return {**inputs, "token_type_ids": segments(inputs), "labels": tags}


def paired(start, decoder_mask):
    """Source and target; the decoder reads the target moved right by one, behind `start`."""
    target = tokens(6, 4)
    ids, mask = target["input_ids"], target["attention_mask"]
    shifted = torch.cat([torch.full((BATCH, 1), start), ids[:, :-1]], 1)
    extra = {"decoder_attention_mask": mask} if decoder_mask else {}
    return {**tokens(), "decoder_input_ids": shifted, **extra, "labels": ids.masked_fill(mask == 0, -100)}


def pixels(height, width, channels=3, labels=0):
    extra = {"labels": torch.randint(0, labels, (BATCH,))} if labels else {}
    return {"pixel_values": rounded(BATCH, channels, height, width).float(), **extra}


def captioned():
    target = causal()
    start = torch.full((BATCH, 1), 1)
    return {**pixels(8, 8, 1), "decoder_input_ids": torch.cat([start, target["input_ids"][:, :-1]], 1),
            "decoder_attention_mask": target["attention_mask"], "labels": target["labels"]}


def gpt2(**changes):
    return hf.GPT2Config(**{**dict(vocab_size=VOCAB, n_positions=16, n_embd=24, n_layer=2, n_head=3, n_inner=40,
                                   bos_token_id=1, eos_token_id=2), **changes})


def bert(**changes):
    return hf.BertConfig(vocab_size=VOCAB, hidden_size=18, num_hidden_layers=2, num_attention_heads=3,
                         intermediate_size=28, max_position_embeddings=16, **changes)


def distilbert(**changes):
    return hf.DistilBertConfig(vocab_size=VOCAB, dim=16, n_layers=2, n_heads=4, hidden_dim=28,
                               max_position_embeddings=16, **changes)


def t5(**changes):
    return hf.T5Config(**{**dict(vocab_size=VOCAB, d_model=16, num_layers=2, num_heads=3, pad_token_id=0,
                                 eos_token_id=1, decoder_start_token_id=0), **changes})


def vit(**changes):
    return hf.ViTConfig(**{**dict(hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=28,
                                  patch_size=4), **changes})


def marian(**changes):
    return hf.MarianConfig(**{**dict(vocab_size=VOCAB, d_model=16, encoder_layers=2, decoder_layers=2,
                                     encoder_attention_heads=4, decoder_attention_heads=2, encoder_ffn_dim=28,
                                     decoder_ffn_dim=20, max_position_embeddings=16, scale_embedding=True,
                                     activation_function="swish", pad_token_id=0, eos_token_id=2,
                                     decoder_start_token_id=0, forced_eos_token_id=None), **changes})


def llama(**changes):
    return hf.LlamaConfig(**{**dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=28, num_hidden_layers=2,
                                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32),
                             **changes})


def mistral(**changes):
    return hf.MistralConfig(**{**dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=28, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32),
                               **changes})


def captioner():
    return hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        vit(image_size=8, num_channels=1, hidden_size=12), gpt2(n_embd=16, n_head=2, n_inner=None),
        decoder_start_token_id=1, pad_token_id=0, eos_token_id=2)


def t5_untied(config):
    """A head of its own, as in T5 1.1; transformers 5 unties it only after the fact."""
    model = hf.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.config.tie_word_embeddings = False
    return model


# name: model class, configuration, inputs
CASES = {
    "gpt2_lm": (hf.GPT2LMHeadModel, gpt2, causal),
    "gpt2_untied": (hf.GPT2LMHeadModel, lambda: gpt2(tie_word_embeddings=False, n_inner=33), causal),
    "gpt2_inverse_layer": (hf.GPT2LMHeadModel,
                           lambda: gpt2(scale_attn_by_inverse_layer_idx=True, n_inner=None, n_embd=12), causal),
    "gpt2_unscaled": (hf.GPT2LMHeadModel, lambda: gpt2(scale_attn_weights=False, activation_function="relu", n_embd=12),
                      causal),
    "gpt2_base": (hf.GPT2Model, gpt2, tokens),
    "bert_mlm": (hf.BertForMaskedLM, bert, masked),
    "bert_classify": (hf.BertForSequenceClassification, lambda: bert(num_labels=3), lambda: classified(3, True)),
    "bert_tag": (hf.BertForTokenClassification, lambda: bert(num_labels=5), lambda: tagged(5)),
    "bert_base": (hf.BertModel, bert, tokens),
    "distilbert_base": (hf.DistilBertModel, distilbert, tokens),
    "distilbert_classify": (hf.DistilBertForSequenceClassification, lambda: distilbert(num_labels=4),
                            lambda: classified(4)),
    "distilbert_mlm": (hf.DistilBertForMaskedLM, distilbert,
                       lambda: {k: v for k, v in masked().items() if k != "token_type_ids"}),
    "t5_relu": (hf.T5ForConditionalGeneration, lambda: t5(d_kv=4, d_ff=28), lambda: paired(0, False)),
    "t5_gated": (t5_untied,
                 lambda: t5(d_kv=8, d_ff=20, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                            num_decoder_layers=1, relative_attention_num_buckets=8,
                            relative_attention_max_distance=12), lambda: paired(0, True)),
    "vit_base": (lambda config: hf.ViTModel(config, add_pooling_layer=False), lambda: vit(image_size=12),
                 lambda: pixels(12, 12)),
    "vit_classify": (hf.ViTForImageClassification, lambda: vit(image_size=[12, 8], num_labels=4, qkv_bias=False),
                     lambda: pixels(12, 8, labels=4)),
    "vit_resized": (hf.ViTForImageClassification, lambda: vit(image_size=12, num_labels=4),
                    lambda: {**pixels(20, 16, labels=4), "interpolate_pos_encoding": True}),
    "marian": (hf.MarianMTModel, marian, lambda: paired(0, True)),
    "marian_unscaled": (hf.MarianMTModel, lambda: marian(scale_embedding=False, activation_function="relu", d_model=12),
                        lambda: paired(0, False)),
    "llama_gqa": (hf.LlamaForCausalLM, llama, causal),
    "llama_tied": (hf.LlamaForCausalLM,
                   lambda: llama(num_key_value_heads=4, head_dim=6, tie_word_embeddings=True), causal),
    "llama_theta": (hf.LlamaForCausalLM, lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
                                                       rms_norm_eps=1e-5), causal),
    "vit_gpt2": (hf.VisionEncoderDecoderModel, captioner, captioned),
    "mistral_window": (hf.MistralForCausalLM, lambda: mistral(sliding_window=3), causal),
}

# transformers 5.22 adds Falcon's ALiBi twice in its eager attention, once in the fused one (as Falcon was trained).
FUSED = {"falcon_alibi", "falcon_alibi_heads"}

# Written as by transformers 4, which keeps theta at the top.
OLD_ROPE = {"llama_gqa", "llama_tied"}


def checkpoint_names(model, values):
    """Tensors by parameter name to tensors by the name in the checkpoint: saved and loaded in the weights' place."""
    twin = copy.deepcopy(model)
    for name, parameter in twin.named_parameters():
        parameter.data = values[name]
    with tempfile.TemporaryDirectory() as folder:
        twin.save_pretrained(folder)
        stored = load_file(f"{folder}/model.safetensors")
    buffers = {name for name, _ in model.named_buffers()}
    return {name: value for name, value in stored.items() if name not in buffers}


def outputs_of(result):
    tensors = {}
    for name, value in result.items():
        if torch.is_tensor(value):
            tensors[name] = value
        elif isinstance(value, tuple) and not name.startswith("reshaped_"):  # Swin's hidden states a second time
            tensors |= {f"{name}.{number}": part for number, part in enumerate(value)}
        elif isinstance(value, hf.utils.ModelOutput):  # CLIP's two towers
            inner = outputs_of(value)
            tensors |= {f"{name}.{key}": part for key, part in inner.items() if key.startswith(("hidden", "attentions"))}
    return tensors


def whole_maps(outputs, inputs, stack, windows, global_mask):
    """Longformer's weights in windows as matrices over all positions; `stack` stands before "attentions"."""
    length = inputs["input_ids"].shape[1]
    real = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
    marked = (global_mask.bool() if global_mask is not None else torch.zeros_like(real)) & real
    most = int(marked.sum(1).max())
    maps = {key: value for key, value in outputs.items() if "attentions." not in key or not key.startswith(stack + "attentions")
            and not key.startswith(stack + "global_attentions")}
    for layer, window in enumerate(windows):
        local = outputs[f"{stack}attentions.{layer}"]
        whole = torch.zeros(*local.shape[:2], length, length)
        for row in range(len(local)):
            places = marked[row].nonzero()[:, 0].tolist()
            for number, place in enumerate(places):
                whole[row, :, :, place] += local[row, :, :length, number]
            for query in range(length):
                for offset in range(window + 1):
                    key = query - window // 2 + offset
                    if 0 <= key < length:
                        whole[row, :, query, key] += local[row, :, query, most + offset]
            for number, place in enumerate(places):
                whole[row, :, place] = outputs[f"{stack}global_attentions.{layer}"][row, :, :length, number]
        maps[f"{stack}attentions.{layer}"] = whole
    return maps


def save_model(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)


def write_old_rope(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    assert hf.AutoConfig.from_pretrained(folder).rope_parameters["rope_theta"] == config["rope_theta"]


def write(name, build, config_of, inputs_of, attentions=True, whole=None):
    config = config_of()
    kernel = "sdpa" if name in FUSED else "eager"
    config._attn_implementation = kernel
    model = build(config).eval()
    if attentions:
        model.set_attn_implementation(kernel)
    randomize(model)
    inputs = inputs_of()
    wanted = {"output_attentions": True} if whole or (attentions and kernel == "eager") else {}
    result = model(**inputs, output_hidden_states=True, **wanted)

    folder = HERE / "models" / name
    save_model(model, folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if name in OLD_ROPE:
        write_old_rope(folder)
    save(folder / "inputs.safetensors", {key: value if torch.is_tensor(value) else torch.tensor([value], dtype=torch.uint8)
                                         for key, value in inputs.items()})
    outputs = {key: value for key, value in outputs_of(result).items()
               if key not in ("cls_logits", "distillation_logits")}  # DeiT's two halves of the logits
    if whole:
        outputs = whole_maps(outputs, inputs, "encoder_" if name.startswith("led") else "", model.config.attention_window,
                             whole(inputs))
    if "input_ids" in inputs and "decoder_input_ids" not in inputs:  # BigBird leaves its padding to whole blocks in
        length = inputs["input_ids"].shape[1]
        outputs = {key: value[:, :length] if key.startswith("hidden_states") else value for key, value in outputs.items()}
    save(folder / "outputs.safetensors", outputs)
    if result.get("loss") is not None:
        result.loss.backward()
        gradients = {key: torch.zeros_like(value) if value.grad is None else value.grad
                     for key, value in model.named_parameters()}
        frozen = {key for key, value in model.named_parameters() if not value.requires_grad}
        named = checkpoint_names(model, gradients)
        save(folder / "grads.safetensors", {key: value for key, value in named.items() if key not in frozen})


if __name__ == "__main__":
    seed(5)
    hf.utils.logging.disable_progress_bar()
    for name, case in CASES.items():
        write(name, *case)
