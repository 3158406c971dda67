# %% slot
# %% torch
# class Bahdanau(nn.Module):
#     def __init__(self, query_size, key_size, hidden):
#         super().__init__()
#         self.w_query = nn.Linear(query_size, hidden, bias=False)
#         self.w_key = nn.Linear(key_size, hidden, bias=False)
#         self.v = nn.Linear(hidden, 1, bias=False)
#     def forward(self, query, memory):
#         scores = self.v(torch.tanh(self.w_query(query).unsqueeze(2) + self.w_key(memory).unsqueeze(1)))
#         return F.softmax(scores.squeeze(-1), dim=-1) @ memory
# %%
import heed as torch
from heed import nn, optim
from heed.nn import functional as F
from heed.notebook import heatmap

LETTERS = 7


class Translator(nn.Module):
    """An LSTM reads, an LSTM writes and attends to what was read."""

    def __init__(self, size=64):
        super().__init__()
        self.letters = nn.Embedding(10, 32)
        self.reader, self.writer = nn.LSTMCell(32, size), nn.LSTMCell(32 + size, size)
        self.attention = nn.BahdanauAttention(size, size, size)
        self.out = nn.Linear(2 * size, 10)

    def forward(self, ids, shifted):
        x, state, states = self.letters(ids), None, []
        for step in range(LETTERS):
            state = self.reader(x[:, step], state)
            states.append(state[0])
        memory, y, results = torch.stack(states, 1), self.letters(shifted), []
        for step in range(LETTERS):
            context = self.attention(state[0].unsqueeze(1), memory).squeeze(1)
            state = self.writer(torch.cat([y[:, step], context], -1), state)
            results.append(self.out(torch.cat([state[0], context], -1)))
        return torch.stack(results, 1)


class Transformer(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.letters, self.places = nn.Embedding(10, size), nn.Embedding(LETTERS, size)
        self.body = nn.Transformer(size, 2, 1, 1, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(size, 10)

    def forward(self, ids, shifted):
        at = self.places(torch.arange(LETTERS))
        mask = nn.Transformer.generate_square_subsequent_mask(LETTERS)
        return self.out(self.body(self.letters(ids) + at, self.letters(shifted) + at, tgt_mask=mask))


def batch():
    ids = torch.randint(2, 10, (64, LETTERS))
    labels = ids[:, list(range(LETTERS - 1, -1, -1))]
    return ids, torch.cat([torch.ones(64, 1, dtype=torch.int64), labels[:, :-1]], 1), labels


def learn(model, rate, steps):
    optimizer = optim.AdamW(model.parameters(), lr=rate)
    schedule = optim.lr_scheduler.WarmupLR(optimizer, warmup=40, total=steps)
    for _ in range(steps):
        ids, shifted, labels = batch()
        loss = F.cross_entropy(model(ids, shifted).view(-1, 10), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    ids, shifted, labels = batch()
    with torch.no_grad(), torch.record() as recorded:
        right = (model(ids, shifted).argmax(-1) == labels).sum().item()
    return right, recorded


torch.manual_seed(1)
lstm = learn(Translator(), 1e-2, 300)
transformer = learn(Transformer(), 5e-3, 300)
steps = torch.stack([each.weights(0, 0)[0] for each in lstm[1].attentions])  # one attention per letter written
heatmap(steps, row_title="Step", column_title="Letter")
# %%
cross = [each for each in transformer[1].attentions if each.kind == "cross"][-1]
heatmap(cross.weights(), row_title="Step", column_title="Letter")
# %% slot
# %%
for name, (right, _) in {"LSTM with Bahdanau's attention": lstm, "Transformer": transformer}.items():
    print(f"{name}: more than 430 of 448 new letters right: {right > 430}")
mirrored = list(range(LETTERS - 1, -1, -1))
print("the LSTM looks at the letter to write:", steps.argmax(-1).tolist() == mirrored)
