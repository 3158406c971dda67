# %% slot
# %% torch
# import torch
# from torch import nn, optim
#
# class PlusTwo(nn.Module):
#     def __init__(self, d_model=32):
#         super().__init__()
#         self.encoder_in, self.decoder_in = nn.Linear(1, d_model), nn.Linear(1, d_model)
#         self.positions = nn.Embedding(5, d_model)
#         self.transformer = nn.Transformer(d_model, 4, 1, 1, 64, dropout=0.0, batch_first=True)
#         self.out = nn.Linear(d_model, 1)
#     def forward(self, source, target):
#         at = self.positions(torch.arange(source.size(1)))
#         mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
#         y = self.transformer(self.encoder_in(source) + at, self.decoder_in(target) + at[: target.size(1)], tgt_mask=mask)
#         return self.out(y)
# %%
import heed as torch
from heed import data, nn, optim
from heed.nn import functional as F
from heed.notebook import heatmap


class PlusTwo(nn.Module):
    def __init__(self, d_model=32):
        super().__init__()
        self.encoder_in, self.decoder_in = nn.Linear(1, d_model), nn.Linear(1, d_model)
        self.positions = nn.Embedding(5, d_model)
        self.transformer = nn.Transformer(d_model, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d_model, 1)

    def forward(self, source, target):
        at = self.positions(torch.arange(source.size(1)))
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        y = self.transformer(self.encoder_in(source) + at, self.decoder_in(target) + at[: target.size(1)], tgt_mask=mask)
        return self.out(y)


torch.manual_seed(1)
model = PlusTwo()
optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
schedule = optim.lr_scheduler.WarmupLR(optimizer, warmup=50, total=600)
examples = data.synthetic("plus-two", 64 * 100)
source = torch.tensor([each["input"] for each in examples]).unsqueeze(-1) / 100
target = torch.tensor([each["target"] for each in examples]).unsqueeze(-1) / 100
for step in range(600):
    rows = slice(64 * (step % 100), 64 * (step % 100) + 64)
    shifted = torch.cat([torch.zeros(64, 1, 1), target[rows, :-1]], 1)
    loss = F.mse_loss(model(source[rows], shifted), target[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
print("off by less than 3:", 100 * loss.item() ** 0.5 < 3)
# %% slot
# %%
numbers = torch.tensor([[10.0, 20, 30, 40, 50]]).unsqueeze(-1) / 100
said = torch.zeros(1, 1, 1)
with torch.no_grad(), torch.record() as recorded:
    for _ in range(5):
        said = torch.cat([said, model(numbers, said)[:, -1:]], 1)
cross = [each for each in recorded.attentions if each.kind == "cross"][-1]
heatmap(cross.weights(), ["12", "22", "32", "42", "52"], ["10", "20", "30", "40", "50"])
# %% slot
# %%
answer = [round(100 * number) for number in said[0, 1:, 0].tolist()]
print("each within 3 of 12 22 32 42 52:", all(abs(a - b) <= 3 for a, b in zip(answer, (12, 22, 32, 42, 52))))
