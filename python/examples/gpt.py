"""A GPT from layers, trained on a text: python gpt.py [TEXT]."""

from __future__ import annotations

import sys

import heed
from heed import nn, optim
from heed.nn import functional as F

TEXT = "The cat sat on the mat and looked at the moon.\n" * 50


class Gpt(nn.Module):
    def __init__(self, vocab: int, d_model: int = 64, n_heads: int = 4, layers: int = 2, context: int = 64) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(context, d_model)
        self.blocks = nn.ModuleList(nn.TransformerBlock(d_model, n_heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, ids: heed.Tensor) -> heed.Tensor:
        x = self.tokens(ids) + self.positions(heed.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main(text: str, steps: int = 100, context: int = 64) -> float:
    characters = sorted(set(text))
    ids = heed.tensor([characters.index(c) for c in text])
    heed.manual_seed(1)
    model = Gpt(len(characters))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    loss = heed.zeros(1)
    for _ in range(steps):
        starts = heed.randint(0, len(ids) - context - 1, [16]).tolist()
        x = heed.stack([ids[i : i + context] for i in starts])
        y = heed.stack([ids[i + 1 : i + context + 1] for i in starts])
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, len(characters)), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.item())


if __name__ == "__main__":
    print(f"loss {main(open(sys.argv[1]).read() if len(sys.argv) > 1 else TEXT):.3f}")
