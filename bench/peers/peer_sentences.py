"""sentence-transformers as installed: sorted by length, batches of 32."""
import torch
from sentence_transformers import SentenceTransformer
from protocol import sample, serve


class Embed:
    def __init__(self, command):
        torch.set_num_threads(command["threads"])
        self.model = SentenceTransformer(command["model"], device="cpu")
        self.texts = open(command["text"], encoding="utf8").read().splitlines()
        self.vectors = None

    def run(self):
        self.vectors = self.model.encode(self.texts, batch_size=32, show_progress_bar=False)

    def values(self):
        return sample(self.vectors.reshape(-1))


serve(Embed)
