# %% slot
# %% torch
# class Head(nn.Module):
#     def __init__(self, d_model, d_head):
#         super().__init__()
#         self.query = nn.Linear(d_model, d_head)
#         self.key = nn.Linear(d_model, d_head)
#         self.value = nn.Linear(d_model, d_head)
#     def forward(self, x):
#         q, k, v = self.query(x), self.key(x), self.value(x)
#         return F.softmax(q @ k.transpose(-2, -1) / d_head ** 0.5, dim=-1) @ v
#
# class HeadList(nn.Module):
#     def __init__(self, d_model, heads):
#         super().__init__()
#         self.heads = nn.ModuleList([Head(d_model, d_model // heads) for _ in range(heads)])
#         self.output = nn.Linear(d_model, d_model)
#     def forward(self, x):
#         return self.output(torch.cat([head(x) for head in self.heads], dim=-1))
# %%
import heed as torch
from heed import nn
from heed.nn import functional as F
from heed.notebook import heatmap


class Head(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.query = nn.Linear(d_model, d_head)
        self.key = nn.Linear(d_model, d_head)
        self.value = nn.Linear(d_model, d_head)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return F.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1) @ v


class HeadList(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = nn.ModuleList([Head(d_model, d_model // heads) for _ in range(heads)])
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.output(torch.cat([head(x) for head in self.heads], dim=-1))


torch.manual_seed(1)
by_hand = HeadList(64, 8)
library = nn.HeadList(64, 8)  # the same, in the library
library.load_state_dict(by_hand.state_dict())
fused = library.fused()       # the same weights, side by side
# %% slot
# %%
for name, parameter in by_hand.named_parameters():
    if name.startswith(("heads.0.", "output.")):
        print(f"{name:22} {list(parameter.shape)}")
x = torch.randn(1, 6, 64)
print("list and fused agree:", torch.allclose(by_hand(x), fused(x), atol=1e-5))

gradients = []
for module in (library, fused):
    (module(x) ** 2).mean().backward()
    parameter = dict(library.named_parameters())["heads.3.value.weight"]
    gradients.append(parameter.grad.clone())
    library.zero_grad()
print("so do the gradients:", torch.allclose(*gradients, atol=1e-5))
# %% slot
# %%
with torch.record() as recorded:
    fused(x)
heatmap(recorded.attention(layer=0))
