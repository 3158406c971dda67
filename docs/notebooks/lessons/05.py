# %% slot
# %% torch
# weights = F.softmax(q @ k.transpose(-2, -1) / 64 ** 0.5, dim=-1)   # the whole matrix
# output = weights @ v
# output = F.scaled_dot_product_attention(q, k, v)                   # tiles
# %%
import heed as torch
from heed.nn import functional as F
from heed.notebook import plot

kernels = ("reference", "chunked", "flash")
lengths, held = (512, 1024, 2048), {name: [] for name in kernels}
for length in lengths:
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 1, length, 64) for _ in range(3))
    for name in kernels:
        torch.reset_peak_memory()
        before = torch.memory_in_use()
        output = torch.attention_by_kernel(q, k, v, torch.AttentionKernel[name])
        held[name].append((torch.peak_memory() - before) / 2**20)
plot({name: (lengths, values) for name, values in held.items()}, x_title="tokens", y_title="MB", log_x=True, log_y=True)
# %% slot
# %%
exact, weights = torch.attention(q.double(), k.double(), v.double())
for name in kernels:
    output = torch.attention_by_kernel(q, k, v, torch.AttentionKernel[name])
    print(f"{name:9} within 0.00001 of the truth: {torch.abs(output.double() - exact).max().item() < 1e-5}")
print("memory falls from kernel to kernel:", held["reference"][-1] > held["chunked"][-1] > held["flash"][-1])
with torch.record() as recorded:
    F.scaled_dot_product_attention(q, k, v)
row = recorded.attentions[0].weights(head=0)[1000]
print(f"row 1000 on demand: sums to {row.sum().item():.4f}, as the formula has it:",
      torch.allclose(row.double(), weights[0, 0, 1000], atol=1e-6))
