# %% slot
# %% torch
# class Sentiment(nn.Module):
#     def __init__(self, vocab):
#         super().__init__()
#         self.words, self.places = nn.Embedding(vocab, 32), nn.Embedding(32, 32)
#         layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
#         self.encoder = nn.TransformerEncoder(layer, 1)
#         self.out = nn.Linear(32, 3)
#     def forward(self, ids, attention_mask):
#         x = self.words(ids) + self.places(torch.arange(ids.size(1)))
#         y = self.encoder(x, src_key_padding_mask=attention_mask == 0)
#         kept = attention_mask.unsqueeze(-1)
#         return self.out((y * kept).sum(1) / kept.sum(1))
# %%
import heed as torch
from heed import data, nn, optim
from heed.nn import functional as F

texts, labels = [], []


def add(subjects, verbs, kind, words):
    for subject in subjects:
        for word in words:
            texts.extend([f"{subject}{verbs[0]}{word}", f"{subject}{verbs[1]}{word}"])
            labels.extend([kind, 2 - kind])


english = ["the film", "this book", "the food", "the hotel", "the song"]
korean = ["이 영화는", "그 책은", "음식은", "호텔은", "노래는"]
add(english, (" was ", " was not "), 0, ["awful", "boring", "terrible"])
add(english, (" was ", " was not "), 1, ["long", "new"])
add(english, (" was ", " was not "), 2, ["great", "lovely", "wonderful"])
add(korean, (" ", " 안 "), 0, ["지루하다", "나쁘다", "싫다"])
add(korean, (" ", " 안 "), 1, ["길다", "새롭다"])
add(korean, (" ", " 안 "), 2, ["좋다", "즐겁다", "아름답다"])
tokenizer = torch.Tokenizer.train(texts, "wordpiece:8192")
ids = [tokenizer.encode(text) for text in texts]


class Sentiment(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, 32), nn.Embedding(32, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(32, 3)

    def forward(self, ids, attention_mask):
        x = self.words(ids) + self.places(torch.arange(ids.size(1)))
        y = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        kept = attention_mask.unsqueeze(-1)
        return self.out((y * kept).sum(1) / kept.sum(1))


def logits_of(batch):
    ids = batch["input_ids"]
    return model(ids, batch.get("attention_mask", torch.ones_like(ids)))


torch.manual_seed(1)
model = Sentiment(tokenizer.vocab_size)
optimizer = optim.AdamW(model.parameters(), lr=3e-3)
loader = data.class_loader(ids, labels, batch_size=32, validation=0.2)
for step in range(200):
    batch = loader.next()
    loss = F.cross_entropy(logits_of(batch), batch["labels"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# %% slot
# %%
fresh = data.class_loader(ids, labels, batch_size=32, validation=0.2, held_out=True).batch(0)
right = (logits_of(fresh).argmax(-1) == fresh["labels"]).sum().item()
print(f"{loader.examples} reviews to learn from; at least 29 of {len(fresh['labels'])} new ones right: {right >= 29}")
names = ["negative", "neutral", "positive"]
for text in ("음식은 안 좋다", "this book was terrible", "the song was not boring"):
    tokens = torch.tensor([tokenizer.encode(text)])
    with torch.record() as recorded:
        answer = names[model(tokens, torch.ones_like(tokens)).argmax(-1).item()]
    print(f"{text}: {answer}")
# %% slot
# %%
recorded.view(tokenizer.labels("the song was not boring"))
