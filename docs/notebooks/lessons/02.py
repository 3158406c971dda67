# %% slot
# %% torch
# import torch
# from torch import nn
# from torch.nn import functional as F
#
# class Net(nn.Module):
#     def __init__(self, heads):
#         super().__init__()
#         self.tokens = nn.Embedding(10, 32)
#         self.places = nn.Embedding(8, 32)
#         self.attention = nn.MultiheadAttention(32, heads, batch_first=True)
#         self.before, self.after = nn.Linear(32, 10), nn.Linear(32, 10)
#     def forward(self, ids):
#         x = self.tokens(ids) + self.places(torch.arange(8))
#         y, weights = self.attention(x, x, x, average_attn_weights=False)
#         return self.before(y), self.after(y), weights
# %%
import heed as torch
from heed import nn, optim
from heed.nn import functional as F
from heed.notebook import heatmap


class Net(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.tokens = nn.Embedding(10, 32)
        self.places = nn.Embedding(8, 32)
        self.attention = nn.MultiheadAttention(32, heads, batch_first=True)
        self.before, self.after = nn.Linear(32, 10), nn.Linear(32, 10)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(8))
        y, weights = self.attention(x, x, x, average_attn_weights=False)
        return self.before(y), self.after(y), weights


def learn(heads, steps=250):
    torch.manual_seed(7)
    net = Net(heads)
    optimizer = optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0)
    for step in range(steps):
        ids = torch.randint(0, 10, (64, 8))
        left, right = torch.cat([ids[:, -1:], ids[:, :-1]], 1), torch.cat([ids[:, 1:], ids[:, :1]], 1)
        before, after, _ = net(ids)
        loss = F.cross_entropy(before.view(-1, 10), left.view(-1)) + F.cross_entropy(after.view(-1, 10), right.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids = torch.randint(0, 10, (64, 8))
    before, _, weights = net(ids)
    right = (before.argmax(-1) == torch.cat([ids[:, -1:], ids[:, :-1]], 1)).sum().item()
    return right, weights[0]


right, weights = learn(heads=2)
heatmap(weights)
# %% slot
# %%
print("PyTorch's layer, PyTorch's names:", [name for name, _ in Net(2).attention.named_parameters()])
# %% slot
# %%
for heads in (1, 2, 4, 8):
    right, _ = learn(heads)
    print(f"heads: {heads}, each {32 // heads:2} wide; all of 512 named right: {right == 512}")
