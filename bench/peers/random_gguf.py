"""A Llama of any shape with random quantised weights, written as GGUF block by block: random_gguf.py
FILE SHAPE KIND. KIND is q8_0, q4_0 or q4_k_m. No f32 weights are made, so a model of billions of
parameters takes seconds."""
import struct, sys

try:
    import numpy as np
except ImportError:  # whoever only asks for the shapes
    np = None

# hidden size, layers, heads, key heads, intermediate size, vocabulary
SHAPES = {
    "1.1b": (2048, 22, 32, 4, 5632, 32000),  # TinyLlama's
    "3b": (3072, 28, 24, 8, 8192, 32000),  # Llama 3.2 3B's, with a smaller vocabulary
    "tiny": (256, 2, 4, 2, 512, 512),
}
TYPES = {"f32": 0, "q4_0": 2, "q8_0": 8, "q4_k": 12, "q6_k": 14}


def halves(value, count):
    return np.full(count, value, np.float16).view(np.uint8).reshape(count, 2)


def blocks(kind, count, random):
    """`count` weights with a standard deviation of about 0.02."""
    if kind == "f32":
        return np.ones(count, np.float32)
    n = count // (32 if kind.endswith("_0") else 256)
    bytes_of = lambda width: random.integers(0, 256, (n, width), np.uint8)
    if kind == "q8_0":
        return np.concatenate([halves(0.02 / 74, n), bytes_of(32)], 1)
    if kind == "q4_0":
        return np.concatenate([halves(0.02 / 4.6, n), bytes_of(16)], 1)
    if kind == "q4_k":
        return np.concatenate([halves(1e-4, n), halves(7.5e-4, n), bytes_of(12), bytes_of(128)], 1)
    return np.concatenate([bytes_of(128), bytes_of(64), bytes_of(16), halves(1.5e-5, n)], 1)


def kind_of(name, layer, layers, kind):
    if "norm" in name:
        return "f32"
    if kind != "q4_k_m":
        return kind
    often = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
    return "q6_k" if name == "output" or (name in ("attn_v", "ffn_down") and often) else "q4_k"


def tensors(shape, kind):
    width, layers, heads, key_heads, inner, vocabulary = shape
    keys = width // heads * key_heads
    yield "token_embd", kind_of("token_embd", 0, layers, kind), (vocabulary, width)
    parts = {"attn_norm": (width,), "attn_q": (width, width), "attn_k": (keys, width), "attn_v": (keys, width),
             "attn_output": (width, width), "ffn_norm": (width,), "ffn_gate": (inner, width),
             "ffn_up": (inner, width), "ffn_down": (width, inner)}
    for layer in range(layers):
        for part, size in parts.items():
            yield f"blk.{layer}.{part}", kind_of(part, layer, layers, kind), size
    yield "output_norm", "f32", (width,)
    yield "output", kind_of("output", 0, layers, kind), (vocabulary, width)


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def metadata(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    if isinstance(value, list):
        kind, one = {str: (8, text), float: (6, lambda v: struct.pack("<f", v)),
                     int: (5, lambda v: struct.pack("<i", v))}[type(value[0])]
        return text(name) + struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(one, value))
    return text(name) + struct.pack("<II", 4, value)


def write(path, shape_name, kind):
    width, layers, heads, key_heads, inner, vocabulary = shape = SHAPES[shape_name]
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    words += [f"▁{i}" for i in range(vocabulary - len(words))]
    fields = {
        "general.architecture": "llama", "general.name": f"random-{shape_name}", "llama.block_count": layers,
        "llama.context_length": 65536, "llama.embedding_length": width, "llama.feed_forward_length": inner,
        "llama.attention.head_count": heads, "llama.attention.head_count_kv": key_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": width // heads, "llama.vocab_size": vocabulary,
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.scores": [-float(i) for i in range(vocabulary)],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (vocabulary - 259),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0}
    random = np.random.default_rng(0)
    listed = list(tensors(shape, kind))
    header = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(fields))
    header += b"".join(metadata(name, value) for name, value in fields.items())
    offset, sizes = 0, []
    sizes_of = {"f32": (1, 4), "q8_0": (32, 34), "q4_0": (32, 18), "q4_k": (256, 144), "q6_k": (256, 210)}
    for name, type_name, size in listed:
        header += text(name + ".weight") + struct.pack("<I", len(size))
        header += struct.pack(f"<{len(size)}Q", *reversed(size)) + struct.pack("<IQ", TYPES[type_name], offset)
        weights, width_of = sizes_of[type_name]
        sizes.append(int(np.prod(size)) // weights * width_of)
        offset += -(-sizes[-1] // 32) * 32
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % 32))
        for (_, type_name, size), count in zip(listed, sizes):
            file.write(blocks(type_name, int(np.prod(size)), random).tobytes())
            file.write(bytes(-count % 32))


if __name__ == "__main__":
    write(*sys.argv[1:4])
