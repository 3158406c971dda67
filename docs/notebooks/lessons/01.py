# %% slot
# %% torch
# import torch
# import torch.nn.functional as F
#
# q, k, v = x @ wq, x @ wk, x @ wv
# scores = q @ k.T
# scaled = scores / 3 ** 0.5
# weights = F.softmax(scaled, dim=-1)
# output = weights @ v
# %%
import heed as torch
import heed.nn.functional as F
from heed.notebook import heatmap

words = ["The", "cat", "sat"]
x = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
wq = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
wk = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
wv = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])

q, k, v = x @ wq, x @ wk, x @ wv
scores = q @ k.T
scaled = scores / 3 ** 0.5
weights = F.softmax(scaled, dim=-1)
output = weights @ v
output
# %% slot
# %%
heatmap(weights, words, title='"The cat sat"')
# %%
heatmap({"softmax(scaled)": weights, "softmax(scores)": F.softmax(scores, dim=-1)}, words)
# %%
fused, again = torch.attention(q, k, v)
print("attention(q, k, v):", torch.allclose(fused, output, atol=1e-5), torch.allclose(again, weights, atol=1e-5))
