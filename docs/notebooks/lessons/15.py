# %% slot
# %% torch
# class Reader(nn.Module):
#     def __init__(self, words, pointing):
#         super().__init__()
#         ...
#     def forward(self, ids, query):
#         y = self.encoder(self.words(ids) + self.places(torch.arange(ids.size(1))))
#         it = y[torch.arange(len(ids)), query]
#         if self.pointing:                       # the weights are the answer
#             return (y @ self.key(it).unsqueeze(-1)).squeeze(-1)
#         return self.out(it)                     # a noun, like any ordinary classifier
# %%
import heed as torch
from heed import data, nn, optim
from heed.nn import functional as F
from heed.notebook import heatmap

examples, held_out = data.synthetic("coreference", 6000), data.synthetic("coreference", 200, held_out=True)
vocabulary = {word: i + 1 for i, word in enumerate(sorted({word for each in examples + held_out for word in each["words"]}))}
LENGTH = max(len(each["words"]) for each in examples + held_out)


def rows(examples):
    ids = [[vocabulary[word] for word in each["words"]] for each in examples]
    return (torch.tensor([row + [0] * (LENGTH - len(row)) for row in ids]),
            torch.tensor([each["query"] for each in examples]),
            torch.tensor([each["referent"] for each in examples]))


class Reader(nn.Module):
    def __init__(self, pointing, size=64):
        super().__init__()
        self.pointing = pointing
        self.words, self.places = nn.Embedding(len(vocabulary) + 1, size), nn.Embedding(LENGTH, size)
        self.blocks = nn.ModuleList([nn.TransformerBlock(size, 4, 2 * size) for _ in range(2)])
        self.key, self.out = nn.Linear(size, size), nn.Linear(size, len(vocabulary) + 1)

    def forward(self, ids, query):
        y = self.words(ids) + self.places(torch.arange(LENGTH))
        for block in self.blocks:
            y = block(y, key_padding=ids != 0)
        it = y.gather(1, query.view(-1, 1, 1).expand(-1, 1, y.size(2)))
        if self.pointing:  # the weights are the answer
            scores = (y @ self.key(it).transpose(1, 2)).squeeze(-1)
            return scores.masked_fill(ids == 0, -1e9)
        return self.out(it.squeeze(1))  # a noun, like any ordinary classifier


def accuracy(model, ids, query, referent):
    with torch.no_grad():
        answer = model(ids, query).argmax(-1)
    truth = referent if model.pointing else ids.gather(1, referent.unsqueeze(1)).squeeze(1)
    return (answer == truth).float().mean().item()


def learn(pointing, steps=400):
    torch.manual_seed(1)
    model, (ids, query, referent) = Reader(pointing), rows(examples)
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(steps):
        chosen = torch.randint(0, len(examples), [64])
        i, q, r = ids[chosen], query[chosen], referent[chosen]
        target = r if pointing else i.gather(1, r.unsqueeze(1)).squeeze(1)
        loss = F.cross_entropy(model(i, q), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


models = {"reader": learn(True), "classifier": learn(False)}
fresh = rows(held_out)
pointing = {}
for name, model in models.items():
    with torch.no_grad(), torch.record() as recorded:
        model(fresh[0], fresh[1])
    heads = []
    for layer in (0, 1):
        for head in range(4):
            hits = sum(recorded.attentions[layer].weights(i, head)[int(fresh[1][i])].argmax().item() == int(fresh[2][i])
                       for i in range(len(held_out)))
            heads.append(hits / len(held_out))
    pointing[name] = heads
first = held_out[0]
maps = {name: torch.stack([recorded.attentions[layer].weights(0, head)[first["query"]][: len(first["words"])]
                           for layer in (0, 1) for head in range(4)]) for name in ("classifier",)}
heatmap(maps, [f"{layer}.{head}" for layer in (0, 1) for head in range(4)], first["words"], row_title="Head", column_title="Word")
# %% slot
# %%
for name, model in models.items():
    print(f"{name}: more than 90 % of new sentences answered right: {accuracy(model, *fresh) > 0.9}")
# %%
model = models["classifier"]
for layer in (0, 1):
    for head in range(4):
        with torch.record(ablate=[(layer, head)]):
            without = accuracy(model, *fresh)
        print(f"layer {layer} head {head} points in {100 * pointing['classifier'][4 * layer + head]:.0f} %; "
              f"ablated, {100 * without:.0f} % are right")
print("no head of the classifier points in 98 %:", max(pointing["classifier"]) < 0.98)
