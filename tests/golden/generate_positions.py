"""Ways to tell positions: sinusoids, rotary, T5's buckets, Shaw's relative vectors, ALiBi."""

import torch
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from common import gradients, leaves, rounded, save, seed
from reference import attend, scores, visible


def sinusoids():
    """Angles are position / 10000^(2i/width) for i = 0, 1, ..., ceil(width/2) - 1."""
    tables = {}
    for width in (12, 7):
        half = (width + 1) // 2
        angles = torch.arange(50.0).double()[:, None] / 10000 ** (torch.arange(half).double() * 2 / width)
        pairs = torch.stack([angles.sin(), angles.cos()])
        tables[f"interleaved_{width}"] = pairs.permute(1, 2, 0).reshape(50, -1)[:, :width]
        tables[f"concatenated_{width}"] = pairs.transpose(0, 1).reshape(50, -1)[:, :width]
        marian = MarianSinusoidalPositionalEmbedding(50, width).create_weight()
        torch.testing.assert_close(marian, tables[f"concatenated_{width}"].float())
    save("positions/sinusoids.safetensors", tables)


def rotate(x, positions, theta, interleaved, rotated):
    """Turns the first `rotated` columns of x [B, H, T, D] by position / theta^(2i/rotated)."""
    angles = positions[:, None] / theta ** (torch.arange(rotated // 2).double() * 2 / rotated)
    cos, sin = angles.cos(), angles.sin()
    head, tail = x[..., :rotated], x[..., rotated:]
    a, b = (head[..., 0::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
    turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1 if interleaved else -2)
    return torch.cat([turned.flatten(-2), tail], -1)


def agrees_with_llama(x, positions, theta, output):
    config = LlamaConfig(hidden_size=x.shape[-1], num_attention_heads=1, head_dim=x.shape[-1],
                         rope_parameters={"rope_type": "default", "rope_theta": theta})
    cos, sin = LlamaRotaryEmbedding(config)(x.float(), positions[None])
    theirs, _ = apply_rotary_pos_emb(x.float(), x.float(), cos, sin)
    torch.testing.assert_close(theirs, output.float(), rtol=1e-4, atol=1e-4)


def rotary():
    dim = 8
    for name, theta, start, rotated in (("plain", 10000.0, 0, dim), ("offset", 500000.0, 37, dim),
                                        ("partial", 10000.0, 3, 4)):
        positions = torch.arange(start, start + 6)
        inputs = leaves({"input": rounded(2, 3, 6, dim)})
        grad_output = rounded(2, 3, 6, dim)
        tensors = {**inputs, "positions": positions, "grad_output": grad_output}
        for style in ("half", "interleaved"):
            output = rotate(inputs["input"], positions, theta, style == "interleaved", rotated)
            tensors[f"output_{style}"] = output
            tensors[f"grad_input_{style}"] = gradients(output, grad_output, inputs)["grad_input"]
        if rotated == dim:
            agrees_with_llama(inputs["input"].detach(), positions, theta, tensors["output_half"])
        save(f"positions/rotary_{name}.safetensors", tensors, theta=theta, rotated=rotated)


def rotary_llama3():
    """The inverse frequencies of Llama 3.1's scaled rotary positions."""
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    config = LlamaConfig(hidden_size=64, num_attention_heads=1, head_dim=64, max_position_embeddings=131072,
                         rope_parameters=rope)
    save("positions/rotary_llama3.safetensors", {"inverse_frequencies": LlamaRotaryEmbedding(config).inv_freq}, **rope)


def t5_buckets():
    relative = torch.arange(-140, 141)
    tables = {"relative_position": relative}
    for buckets, distance in ((32, 128), (8, 20)):
        for name, bidirectional in (("bidirectional", True), ("causal", False)):
            tables[f"{name}_{buckets}_{distance}"] = T5Attention._relative_position_bucket(
                relative, bidirectional, buckets, distance)
    save("positions/t5_buckets.safetensors", tables)


def shaw():
    """Relative vectors join keys and values: index clip(j - i, -4, 4) + 4 into tables of nine."""
    reach, length, dim = 4, 9, 8
    index = (torch.arange(length)[None, :] - torch.arange(length)[:, None]).clamp(-reach, reach) + reach
    for causal in ("none", "top-left"):
        inputs = leaves({**{name: rounded(2, 3, length, dim) for name in "qkv"},
                         "relative_key": rounded(2 * reach + 1, dim), "relative_value": rounded(2 * reach + 1, dim)})
        q, k, v, relative_key, relative_value = inputs.values()
        score = scores(q, k) + torch.einsum("bhqd,qkd->bhqk", q, relative_key[index]) * dim ** -0.5
        output, weights, lse = attend(score, visible(length, length, causal), v)
        output = output + torch.einsum("bhqk,qkd->bhqd", weights, relative_value[index])
        grad_output = rounded(*output.shape)
        save(f"positions/shaw_{causal.replace('-', '_')}.safetensors",
             {**inputs, "grad_output": grad_output, "output": output, "weights": weights, "lse": lse,
              **gradients(output, grad_output, inputs)}, causal=causal, max_distance=reach)


def alibi():
    """Slopes for one to sixteen heads; the bias is -slope * |i + Tk - Tq - j|."""
    tensors = {}
    for heads in range(1, 17):
        # At position 1 the reference's bias is the slope itself.
        tensors[f"slopes_{heads}"] = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32).flatten(1)[:, 1]
    distance = torch.arange(7)[None, :] - (torch.arange(5)[:, None] + 2)
    tensors["bias_6"] = -tensors["slopes_6"][:, None, None] * distance.abs()
    save("positions/alibi.safetensors", tensors)


if __name__ == "__main__":
    seed(4)
    sinusoids()
    rotary()
    rotary_llama3()
    t5_buckets()
    shaw()
    alibi()
