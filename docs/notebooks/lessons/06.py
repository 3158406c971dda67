# %% slot
# %% torch
# scores = torch.zeros(12, 12)
# scores[torch.arange(12), torch.arange(12)] = 6
# weights = F.softmax(scores, dim=-1)
# %%
import heed as torch
from heed.nn import functional as F
from heed.notebook import heatmap

i, j = torch.arange(12).unsqueeze(1), torch.arange(12).unsqueeze(0)


def head(where, score=6.0, causal=False):
    scores = torch.where(where, score, 0.0)
    if causal:
        scores = scores.masked_fill(j > i, -torch.inf)
    return F.softmax(scores, dim=-1)


nowhere = (i < 0) & (j < 0)
heads = {
    "looks at itself": head(i == j),
    "looks one back": head(j == i - 1),
    "rests on the first": head((j == 0) & (i >= 0)),
    "stays near": head(torch.abs((i - j).float()) < 3, 4.0),
    "spreads out": head(nowhere),
}
heatmap(heads)
# %% slot
# %%
for name, weights in heads.items():
    found = torch.attention_patterns(weights)
    print(f"{name:20} {found.name:15} {found.diagonal:6.2f} {found.entropy:6.2f} {found.mean_distance:6.2f}")
# %% slot
# %%
broken = head(nowhere)
broken[0, 5] = float("nan")
cases = {
    "full attention": (head(nowhere), False),
    "causal attention": (head(nowhere, causal=True), True),
    "causal, mask forgotten": (head(nowhere), True),
    "rows doubled": (head(nowhere) * 2, False),
    "a NaN inside": (broken, False),
}
for name, (weights, causal) in cases.items():
    print(f"{name}: {torch.validate_weights(weights, causal) or 'all is well'}")
