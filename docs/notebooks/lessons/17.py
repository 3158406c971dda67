# %% slot
# %% torch
# n, d, k = 100, 512, 3
# x = torch.randn(1, n, d)
# torch.nn.functional.scaled_dot_product_attention(x, x, x)  # n² · d
# torch.nn.RNN(d, d)(x)                                      # n · d², one step after another
# torch.nn.Conv1d(d, d, k)(x.transpose(1, 2))                # k · n · d²
# %%
import math

import heed
from heed.notebook import plot

d, k, heads = 512, 3, 8


def costs(n):
    """Operations, steps in a row, longest path."""
    return {"self-attention": (n * n * d, 1, 1), "RNN": (n * d * d, n, n), "CNN": (k * n * d * d, 1, math.ceil(math.log(n, k)))}


for n in (100, 5000):
    print(f"n = {n}, d = {d}, k = {k}")
    for name, (operations, steps, path) in costs(n).items():
        print(f"{name:16} {operations:12} {steps:8} {path:8}")
# %%
print(next(n for n in range(1, 10000) if costs(n)["self-attention"][0] > costs(n)["RNN"][0]))
# %% slot
# %%
tokens = (512, 1024, 2048, 4096, 8192)


def mebibytes(n, dtype):
    return heads * n * n * heed.zeros(1, dtype=dtype).element_size() / 2**20


plot({"f32": (tokens, [mebibytes(n, heed.float32) for n in tokens]), "bf16": (tokens, [mebibytes(n, heed.bfloat16) for n in tokens])},
     x_title="n", y_title="MiB")
# %% slot
# %%
for n in tokens:
    print(f"{n:5}: {mebibytes(n, heed.float32):6.0f} MiB f32, {mebibytes(n, heed.bfloat16):6.0f} MiB bf16")
print(math.isqrt(4 * 2**30 // (4 * heads)))
