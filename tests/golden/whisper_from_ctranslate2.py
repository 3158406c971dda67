"""A Hugging Face folder of Whisper from CTranslate2's container: whisper_from_ctranslate2.py SOURCE DESTINATION.

SOURCE holds model.bin (version 6), config.json, vocabulary.json and tokenizer.json, as faster-whisper reads them.
"""

import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


def read_container(path):
    """Tensors by CTranslate2's names."""
    data, at = path.read_bytes(), 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        length = take("H")
        at += length
        return data[at - length:at].rstrip(b"\0").decode()

    version = take("I")
    assert version == 6, f"version {version}"
    text(), take("I")  # the specification's name and revision
    tensors = {}
    for _ in range(take("I")):
        name, rank = text(), take("B")
        shape = [take("I") for _ in range(rank)]
        kind, size = TYPES[take("B")], take("I")
        tensors[name] = np.frombuffer(data, kind, size // np.dtype(kind).itemsize, at).reshape(shape)
        at += size
    for _ in range(take("I")):
        alias, name = text(), text()
        tensors[alias] = tensors[name]
    return tensors


def hugging_face_names(tensors):
    """float32 tensors by Hugging Face's names."""
    result = {}

    def put(name, value):
        result["model." + name] = torch.from_numpy(value.astype(np.float32).copy())

    def norm(target, source):
        put(target + ".weight", tensors[source + "/gamma"])
        put(target + ".bias", tensors[source + "/beta"])

    def dense(targets, source):
        """One product that CTranslate2 joins of several, with the biases that it adds: keys have none in Whisper."""
        weights = np.split(tensors[source + "/weight"], len(targets))
        biases = np.split(tensors[source + "/bias"], len(targets))
        for target, weight, bias in zip(targets, weights, biases):
            put(target + ".weight", weight)
            if target.endswith("k_proj"):
                assert not bias.any(), target
            else:
                put(target + ".bias", bias)

    for number in (1, 2):
        for part in ("weight", "bias"):
            put(f"encoder.conv{number}.{part}", tensors[f"encoder/conv{number}/{part}"])
    for side in ("encoder", "decoder"):
        put(f"{side}.embed_positions.weight", tensors[f"{side}/position_encodings/encodings"])
        norm(f"{side}.layer_norm", f"{side}/layer_norm")
        layer = 0
        while f"{side}/layer_{layer}/self_attention/linear_0/weight" in tensors:
            source, target = f"{side}/layer_{layer}", f"{side}.layers.{layer}"
            own = f"{target}.self_attn"
            norm(f"{target}.self_attn_layer_norm", f"{source}/self_attention/layer_norm")
            dense([f"{own}.q_proj", f"{own}.k_proj", f"{own}.v_proj"], f"{source}/self_attention/linear_0")
            dense([f"{own}.out_proj"], f"{source}/self_attention/linear_1")
            if side == "decoder":
                cross = f"{target}.encoder_attn"
                norm(f"{target}.encoder_attn_layer_norm", f"{source}/attention/layer_norm")
                dense([f"{cross}.q_proj"], f"{source}/attention/linear_0")
                dense([f"{cross}.k_proj", f"{cross}.v_proj"], f"{source}/attention/linear_1")
                dense([f"{cross}.out_proj"], f"{source}/attention/linear_2")
            norm(f"{target}.final_layer_norm", f"{source}/ffn/layer_norm")
            dense([f"{target}.fc1"], f"{source}/ffn/linear_0")
            dense([f"{target}.fc2"], f"{source}/ffn/linear_1")
            layer += 1
    put("decoder.embed_tokens.weight", tensors["decoder/embeddings/weight"])
    return result


def main(source, destination):
    destination.mkdir(parents=True, exist_ok=True)
    tensors = read_container(source / "model.bin")
    named = hugging_face_names(tensors)
    save_file(named, destination / "model.safetensors", metadata={"format": "pt"})
    given = json.loads((source / "config.json").read_text())
    vocabulary, width = named["model.decoder.embed_tokens.weight"].shape
    layers = {side: 1 + max(int(name.split(".")[3]) for name in named if name.startswith(f"model.{side}.layers."))
              for side in ("encoder", "decoder")}
    start = 50258
    config = dict(model_type="whisper", architectures=["WhisperForConditionalGeneration"], vocab_size=vocabulary,
                  d_model=width, num_mel_bins=named["model.encoder.conv1.weight"].shape[1],
                  encoder_layers=layers["encoder"], decoder_layers=layers["decoder"],
                  encoder_attention_heads=int(tensors["encoder/num_heads"]) if "encoder/num_heads" in tensors else width // 64,
                  decoder_attention_heads=int(tensors["decoder/num_heads"]) if "decoder/num_heads" in tensors else width // 64,
                  encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, max_source_positions=1500, max_target_positions=448,
                  pad_token_id=50257, bos_token_id=50257, eos_token_id=50257, decoder_start_token_id=start)
    (destination / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    words = json.loads((source / "vocabulary.json").read_text())
    languages = {words[number]: number for number in given["lang_ids"]}
    generation = dict(alignment_heads=given["alignment_heads"], lang_to_id=languages, suppress_tokens=given["suppress_ids"],
                      begin_suppress_tokens=given["suppress_ids_begin"], decoder_start_token_id=start, eos_token_id=50257,
                      pad_token_id=50257, bos_token_id=50257, is_multilingual=True, max_initial_timestamp_index=50,
                      max_length=448, no_timestamps_token_id=words.index("<|notimestamps|>"),
                      task_to_id={name: words.index(f"<|{name}|>") for name in ("transcribe", "translate")})
    (destination / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    shutil.copy(source / "tokenizer.json", destination)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
