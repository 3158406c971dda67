# %% slot
# %%
import heed as torch
from heed import nn, optim
from heed.nn import functional as F
from heed.notebook import heatmap

torch.manual_seed(1)
q, k, v = torch.randn(4, 8), torch.randn(4, 8), torch.randn(4, 8)
_, masked = torch.attention(q, k, v, causal=True)
_, free = torch.attention(q, k, v)
heatmap({"causal": masked, "-": free}, ["I", "like", "green", "tea"])
# %% slot
# %% torch
# mask = torch.tril(torch.ones(4, 4))
# scores = q @ k.transpose(-2, -1) / 8 ** 0.5
# scores = scores.masked_fill(mask == 0, float("-inf"))
# output = F.softmax(scores, dim=-1) @ v
# %%
mask = torch.tril(torch.ones(4, 4))
scores = q @ k.transpose(-2, -1) / 8 ** 0.5
scores = scores.masked_fill(mask == 0, float("-inf"))
output = F.softmax(scores, dim=-1) @ v
print(torch.allclose(output, torch.attention(q, k, v, causal=True)[0], atol=1e-6))
# %% slot
# %%
nan = float("nan")
spoiled_k, spoiled_v = k.clone(), v.clone()
spoiled_k[3], spoiled_v[3] = nan, nan
for causal in (True, False):
    before, _ = torch.attention(q, k, v, causal=causal)
    after, _ = torch.attention(q, spoiled_k, spoiled_v, causal=causal)
    same = (before[:3] == after[:3]).sum().item()
    print(f"the last word is NaN, causal={causal}: {same} of the 24 numbers before it stay as they were")
# %%
class Guesser(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 32), nn.Embedding(8, 32)
        self.block = nn.TransformerBlock(32, 2, causal=causal)
        self.head = nn.Linear(32, 10)

    def forward(self, ids):
        return self.head(self.block(self.tokens(ids) + self.places(torch.arange(7))))


for causal in (True, False):
    torch.manual_seed(1)
    model = Guesser(causal)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(150):
        digits = torch.randint(0, 10, (64, 8))
        loss = F.cross_entropy(model(digits[:, :-1]).view(-1, 10), digits[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"next of random digits, causal={causal}: loss below 2.2: {loss.item() < 2.2}")
