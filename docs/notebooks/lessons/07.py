# %% slot
# %% torch
# position = torch.arange(128).unsqueeze(1)
# div_term = torch.exp(torch.arange(0, 64, 2) * (-math.log(10000.0) / 64))
# pe = torch.zeros(128, 64)
# pe[:, 0::2] = torch.sin(position * div_term)
# pe[:, 1::2] = torch.cos(position * div_term)
# %%
import math

import heed as torch
from heed.notebook import heatmap

position = torch.arange(128).unsqueeze(1)
div_term = torch.exp(torch.arange(0, 64, 2) * (-math.log(10000.0) / 64))
pe = torch.zeros(128, 64)
pe[:, 0::2] = torch.sin(position * div_term)
pe[:, 1::2] = torch.cos(position * div_term)
print(torch.allclose(pe, torch.sinusoidal_positions(128, 64), atol=1e-5))
heatmap(pe, row_title="Position", column_title="")
# %%
alike = pe @ pe.T * (2 / 64)
heatmap(alike, row_title="Position", column_title="Position")
# %% slot
# %%
torch.manual_seed(1)
words = torch.randn(3, 64)             # dog bites man
reversed_words = words[[2, 1, 0]]      # man bites dog


def dog(words, place):
    return torch.attention(words, words, words)[0][place]


same = torch.allclose(dog(words, 0), dog(reversed_words, 2), atol=1e-5)
print('"dog" comes out the same in both orders, without positions:', same)
same = torch.allclose(dog(words + pe[:3], 0), dog(reversed_words + pe[:3], 2), atol=1e-5)
print("and with sinusoids added:", same)

q, k = torch.randn(1, 1, 64), torch.randn(1, 1, 64)


def rotated(x, place):
    return torch.rotary(x, torch.tensor([place]))


near = (rotated(q, 7) * rotated(k, 3)).sum().item()
far = (rotated(q, 57) * rotated(k, 53)).sum().item()
print("rotated q and k, 4 apart, at 7 and at 57: the same product:", abs(near - far) < 1e-3)
print("slopes of ALiBi's 8 heads:", torch.alibi_slopes(8).tolist())
print("T5's bucket by distance:", {distance: torch.t5_bucket(distance) for distance in (-128, -20, -3, -1, 0, 1, 3, 20, 128)})
