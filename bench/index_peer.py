"""Indexing against sentence-transformers: index_peer.py HEED MINILM PASSAGES.jsonl [COUNT [ROUNDS]]

Both embed the same passages with all-MiniLM-L6-v2 in f32 on all cores, in turn; prints the medians of sentences per
second. heed's figure includes reading, splitting, writing and checksumming the index; the peer's is encode() alone.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main():
    heed, model, passages = sys.argv[1:4]
    count, rounds = (int(value) for value in (sys.argv[4:6] + ["1000", "3"][len(sys.argv) - 4:])[:2])
    texts = [json.loads(line)["text"] for line in open(passages, encoding="utf-8")][:count]

    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    body = Transformer(model, max_seq_length=256)
    peer = SentenceTransformer(modules=[body, Pooling(body.get_word_embedding_dimension(), "mean"), Normalize()],
                               device="cpu").float()
    peer.encode(texts[:32])
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "texts.jsonl"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        rates = {"heed": [], "sentence-transformers": []}
        for number in range(rounds):
            index = Path(folder) / f"{number}.heed-index"
            start = time.perf_counter()
            done = subprocess.run([heed, "index", data, "--model", model, "--out", index, "--json", "--quiet"],
                                  check=True, capture_output=True, text=True)
            rates["heed"].append(json.loads(done.stdout)["chunks_added"] / (time.perf_counter() - start))
            start = time.perf_counter()
            peer.encode(texts, batch_size=32)
            rates["sentence-transformers"].append(len(texts) / (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, value in medians.items():
        print(f"{name:22} {value:8.1f} sentences/s")
    print(f"ratio {medians['heed'] / medians['sentence-transformers']:.2f}; torch {torch.__version__}, "
          f"{torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
