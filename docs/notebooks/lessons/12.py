# %% slot
# %% torch
# class GPT(nn.Module):
#     def __init__(self, vocab, d_model=64, heads=4, layers=2, context=64):
#         super().__init__()
#         self.tokens = nn.Embedding(vocab, d_model)
#         self.positions = nn.Embedding(context, d_model)
#         layer = nn.TransformerEncoderLayer(d_model, heads, 4 * d_model, 0.0, "gelu", batch_first=True, norm_first=True)
#         self.blocks = nn.TransformerEncoder(layer, layers)
#         self.norm = nn.LayerNorm(d_model)
#         self.head = nn.Linear(d_model, vocab)
#     def forward(self, ids):
#         x = self.tokens(ids) + self.positions(torch.arange(ids.size(1)))
#         mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
#         return self.head(self.norm(self.blocks(x, mask)))
# %%
import heed as torch
from heed import data, nn, optim
from heed.nn import functional as F
from heed.notebook import plot

TEXT = """The cat sat on the mat and looked at the moon.
The moon looked back and said nothing at all.
고양이는 자리에 앉아 달을 보았다.
달도 고양이를 보았지만 아무 말도 하지 않았다.
""" * 20


class GPT(nn.Module):
    def __init__(self, vocab, d_model=64, heads=4, layers=2, context=64):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(context, d_model)
        self.blocks = nn.ModuleList([nn.TransformerBlock(d_model, heads, causal=True) for _ in range(layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


tokenizer = torch.Tokenizer.train([TEXT], "char", min_frequency=1)
ids = tokenizer.encode(TEXT, add_special_tokens=False)
loader = data.lm_loader(ids, context=65, batch_size=8)
torch.manual_seed(1)
model = GPT(tokenizer.vocab_size)
# %% slot
# %%
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
schedule = optim.lr_scheduler.WarmupLR(optimizer, warmup=20, total=250, floor=0.1)
losses = []
for step in range(250):
    batch = loader.next()["input_ids"]
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.view(-1, tokenizer.vocab_size), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
print(f"{len(ids)} characters, {tokenizer.vocab_size} different ones; loss below 0.2: {losses[-1] < 0.2}")

written = tokenizer.encode("The cat", add_special_tokens=False)
with torch.no_grad():
    for _ in range(80):
        logits = model(torch.tensor([written[-64:]]))
        written.append(logits[0, -1].argmax().item())
print(tokenizer.decode(written))
# %% slot
# %%
plot({"loss": losses})
