# %% slot
# %% torch
# class Captioner(nn.Module):
#     def __init__(self, vocab):
#         super().__init__()
#         self.regions, self.words = nn.Linear(208, 64), nn.Embedding(vocab, 64)
#         self.places = nn.Embedding(32, 64)
#         layer = nn.TransformerDecoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
#         self.decoder = nn.TransformerDecoder(layer, 2)
#         self.out = nn.Linear(64, vocab)
#     def forward(self, features, ids):
#         x = self.words(ids) + self.places(torch.arange(ids.size(1)))
#         mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
#         return self.out(self.decoder(x, self.regions(features), tgt_mask=mask))
# %%
import heed as torch
from heed import _heed, data, nn, optim
from heed.nn import functional as F
from heed.notebook import Svg


class Captioner(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.regions, self.words = nn.Linear(208, 64), nn.Embedding(vocab, 64)
        self.places = nn.Embedding(32, 64)
        layer = nn.TransformerDecoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.out = nn.Linear(64, vocab)

    def forward(self, features, ids):
        x = self.words(ids) + self.places(torch.arange(ids.size(1)))
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.out(self.decoder(x, self.regions(features), tgt_mask=mask))


def regions(examples):
    """16 regions: the pixels of each, and which it is."""
    images = torch.stack([pixels for pixels, _ in examples]).float() * (2 / 255) - 1
    patches = _heed.unfold_patches(images.permute(0, 3, 1, 2), 8)
    return torch.cat([patches, torch.eye(16).expand(len(examples), -1, -1)], -1)


examples, fresh = data.shapes(1500), data.shapes(100, held_out=True)
tokenizer = torch.Tokenizer.train([caption for _, caption in examples], "wordpiece:8192")
marks = tokenizer.special_tokens
captions = [tokenizer.encode(caption) for _, caption in examples]
loader = data.caption_loader(regions(examples), captions, start=marks["cls"], end=marks["sep"])

torch.manual_seed(1)
model = Captioner(tokenizer.vocab_size)
optimizer = optim.AdamW(model.parameters(), lr=2e-3)
for step in range(250):
    batch = loader.next()
    logits = model(batch["features"], batch["decoder_input_ids"])
    loss = F.cross_entropy(logits.reshape(-1, tokenizer.vocab_size), batch["labels"].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

tests = data.caption_loader(regions(fresh), [tokenizer.encode(caption) for _, caption in fresh], start=marks["cls"],
                            end=marks["sep"], batch_size=100, shuffle=False).batch(0)
with torch.no_grad(), torch.record() as recorded:
    guess = model(tests["features"], tests["decoder_input_ids"]).argmax(-1)
cross = [each for each in recorded.attentions if each.kind == "cross"][-1]
weights = cross.weights(0).mean(0)
panels = [(tokenizer.id_to_token(int(label)), weights[t].view(4, 4))
          for t, label in enumerate(tests["labels"][0]) if int(label) > marks["sep"]]
Svg(_heed.patch_svg(fresh[0][0], panels, fresh[0][1]))
# %% slot
# %%
counted = tests["labels"] > marks["sep"]
right = ((guess == tests["labels"]) & counted).sum().item() / counted.sum().item()
print("more than 70 % of the words of 100 new captions come out right:", right > 0.7)
