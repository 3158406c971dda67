"""Small random encoder-decoders of Hugging Face: generate_seq2seq.py [NAME…]. Every case is seeded by its name."""

import sys
import zlib

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import generate_generation
from common import HERE, rounded, save, seed
from generate_models import BATCH, LENGTH, VOCAB, marian, paired, tokens, write

SIZES = dict(vocab_size=VOCAB, d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
             decoder_attention_heads=2, encoder_ffn_dim=28, decoder_ffn_dim=20, max_position_embeddings=18)


def sized(config, **changes):
    return config(**{**SIZES, **changes})


def bart(**changes):
    return sized(hf.BartConfig, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, **changes)


def mbart(**changes):
    return sized(hf.MBartConfig, **{**dict(pad_token_id=0, bos_token_id=1, eos_token_id=2), **changes})


def m2m(**changes):
    return sized(hf.M2M100Config, **{**dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2),
                                     **changes})


def pegasus(**changes):
    return sized(hf.PegasusConfig, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **changes)


def led(**changes):
    sizes = {key: value for key, value in SIZES.items() if key != "max_position_embeddings"}
    return hf.LEDConfig(**{**sizes, **dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2,
                                           attention_window=[4, 6], max_encoder_position_embeddings=30,
                                           max_decoder_position_embeddings=18), **changes})


def long_source(inputs, length=21, real=17, every=0):
    """With a source that is longer than the windows; every Nth token attends to all."""
    extra = {"global_attention_mask": (torch.arange(length) % every == 2).long().expand(BATCH, length).clone()} if every else {}
    return {**inputs, **tokens(length, real), **extra}


def answered(length=LENGTH, real=LENGTH - 3):
    return {**tokens(length, real), "start_positions": torch.tensor([2, 1]), "end_positions": torch.tensor([5, 4])}


def labelled():
    """The decoder's input is the model's own work."""
    inputs = paired(2, False)
    del inputs["decoder_input_ids"]
    return inputs


def padded_with(token):
    """Padding by a token other than 0, before the source and after the target."""
    inputs = tokens()
    source = inputs["input_ids"].flip(1)
    mask = inputs["attention_mask"].flip(1)
    target = paired(2, True)
    ids = target["decoder_input_ids"].masked_fill(target["decoder_attention_mask"] == 0, token)
    return {"input_ids": source.masked_fill(mask == 0, token), "attention_mask": mask, "decoder_input_ids": ids,
            "decoder_attention_mask": target["decoder_attention_mask"], "labels": target["labels"]}


def classified(labels):
    inputs = tokens()
    inputs["input_ids"][:, LENGTH // 2] = 2
    return {**inputs, "labels": torch.randint(0, labels, (BATCH,))}


def marian_positions(config):
    """Positions of its own instead of sinusoids, as a file may have them."""
    model = hf.MarianMTModel(config)
    for part in (model.model.encoder, model.model.decoder):
        torch.nn.init.normal_(part.embed_positions.weight, std=0.5)
    return model


def add_positions(name):
    """Into the file, too: transformers reads them there, though it does not write them."""
    folder = HERE / "models" / name
    seed(zlib.crc32(name.encode()))
    model = marian_positions(marian())
    path = folder / "model.safetensors"
    stored = {key: value for key, value in model.state_dict().items() if "embed_positions" in key}
    save_file({**load_file(path), **stored}, path, metadata={"format": "pt"})
    read = hf.MarianMTModel.from_pretrained(folder, attn_implementation="eager").eval()
    result = read(**load_file(folder / "inputs.safetensors"))
    expected = load_file(folder / "outputs.safetensors")
    assert torch.allclose(result.logits, expected["logits"], atol=1e-5), "transformers ignores stored positions"


def whisper(**changes):
    return sized(hf.WhisperConfig, **{**dict(num_mel_bins=7, max_source_positions=9, max_target_positions=16,
                                             pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
                                             suppress_tokens=None, begin_suppress_tokens=None), **changes})


def spoken():
    """A spectrogram of twice max_source_positions frames, and labels."""
    target = paired(3, False)
    return {"input_features": rounded(BATCH, 7, 18).float(), "decoder_input_ids": target["decoder_input_ids"],
            "labels": target["labels"]}


def write_log_mel():
    """A chirp in noise that fades away, through the reference's feature extractor."""
    seed(zlib.crc32(b"log_mel"))
    time = torch.arange(6000) / 16000
    samples = (torch.sin(2 * torch.pi * (200 + 4000 * time) * time) * torch.exp(-6 * time)
               + 0.01 * torch.randn(6000)).float()
    tensors = {"samples": samples}
    for mels in (80, 128):
        extract = hf.WhisperFeatureExtractor(feature_size=mels)
        result = extract(samples.numpy(), sampling_rate=16000, return_tensors="pt", padding="do_not_pad")
        tensors[f"mels_{mels}"] = result.input_features[0]
    save("ops/log_mel.safetensors", tensors)


# name: model class, configuration, inputs
CASES = {
    "bart": (hf.BartForConditionalGeneration, bart, lambda: paired(2, True)),
    "bart_scaled": (hf.BartForConditionalGeneration,
                    lambda: bart(scale_embedding=True, activation_function="relu", d_model=12), labelled),
    "bart_base": (hf.BartModel, bart, tokens),
    "bart_classify": (hf.BartForSequenceClassification, lambda: bart(num_labels=4), lambda: classified(4)),
    "bart_qa": (hf.BartForQuestionAnswering, bart, answered),
    "led": (hf.LEDForConditionalGeneration, led, lambda: long_source(paired(2, True))),
    "led_global": (hf.LEDForConditionalGeneration, lambda: led(attention_window=4, activation_function="relu", d_model=12),
                   lambda: long_source(labelled(), 24, 19, 5)),
    "led_base": (hf.LEDModel, led, lambda: long_source({}, 12, 9, 7)),
    "led_qa": (hf.LEDForQuestionAnswering, lambda: led(encoder_layers=1, attention_window=[8]), lambda: answered(13, 11)),
    "mbart": (hf.MBartForConditionalGeneration, lambda: mbart(scale_embedding=True), labelled),
    "mbart_classify": (hf.MBartForSequenceClassification, lambda: mbart(num_labels=3), lambda: classified(3)),
    "m2m_100": (hf.M2M100ForConditionalGeneration, m2m, lambda: paired(2, True)),
    "m2m_100_padding": (hf.M2M100ForConditionalGeneration,
                        lambda: m2m(pad_token_id=3, d_model=20, scale_embedding=False, activation_function="gelu_new"),
                        lambda: padded_with(3)),
    "pegasus": (hf.PegasusForConditionalGeneration, pegasus, lambda: paired(0, True)),
    "pegasus_scaled": (hf.PegasusForConditionalGeneration,
                       lambda: pegasus(scale_embedding=True, activation_function="relu", d_model=12), labelled),
    "marian_positions": (marian_positions, marian, lambda: paired(0, True)),
    "whisper": (hf.WhisperForConditionalGeneration, whisper, spoken),
    "whisper_relu": (hf.WhisperForConditionalGeneration,
                     lambda: whisper(scale_embedding=True, activation_function="relu", d_model=12,
                                     encoder_attention_heads=3), spoken),
}

def forcing(build, **tokens):
    """With forced tokens in generation_config.json, where transformers 5 looks for them."""
    def make(config):
        model = build(config)
        for name, token in tokens.items():
            setattr(model.generation_config, name, token)
        return model
    return make


SMALL = dict(vocab_size=23, max_position_embeddings=32, decoder_layers=2)

# name: model class, configuration, seed; the seeds give decodings that differ in length and end both ways.
DECODED = {
    "bart": (forcing(hf.BartForConditionalGeneration, forced_bos_token_id=1, forced_eos_token_id=2),
             lambda: bart(**SMALL), 41),
    "mbart": (hf.MBartForConditionalGeneration, lambda: mbart(**SMALL, decoder_start_token_id=4), 2),
    "m2m_100": (forcing(hf.M2M100ForConditionalGeneration, forced_bos_token_id=5), lambda: m2m(**SMALL), 57),
    "pegasus": (hf.PegasusForConditionalGeneration, lambda: pegasus(**SMALL), 5),
}


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    for name in [each for each in sys.argv[1:] or CASES if each in CASES]:
        seed(zlib.crc32(name.encode()))
        whole = (lambda inputs: inputs.get("global_attention_mask")) if name.startswith("led") else None
        write(name, *CASES[name], whole=whole)
        if name == "marian_positions":
            add_positions(name)
    if not sys.argv[1:] or "log_mel" in sys.argv[1:]:
        write_log_mel()
    for name in [each.removeprefix("generation/") for each in sys.argv[1:] if each.startswith("generation/")] or (
            [] if sys.argv[1:] else DECODED):
        generate_generation.write(name, *DECODED[name])
