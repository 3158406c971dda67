"""Indexing against sentence-transformers: index_peer.py HEED MINILM PASSAGES.jsonl [COUNT [ROUNDS]]

Both embed the same passages with all-MiniLM-L6-v2 on all cores, in f32 and in bf16, in turn; prints the medians of
sentences per second. heed's figure includes the start of the program, reading, splitting, writing and checksumming the
index; the peer's is encode() alone.
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
    count, rounds = (int(value) for value in (sys.argv[4:6] + ["500", "3"][len(sys.argv) - 4:])[:2])
    texts = [json.loads(line)["text"] for line in open(passages, encoding="utf-8")][:count]

    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    def peer(dtype):
        body = Transformer(model, max_seq_length=256)
        made = SentenceTransformer(modules=[body, Pooling(body.get_embedding_dimension(), "mean"), Normalize()],
                                   device="cpu").to(dtype)
        made.encode(texts[:32])
        return made

    peers = {"f32": peer(torch.float32), "bf16": peer(torch.bfloat16)}
    rates = {f"{name} {dtype}": [] for dtype in peers for name in ("heed", "sentence-transformers")}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "texts.jsonl"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        for number in range(rounds):
            for dtype, made in peers.items():
                index = Path(folder) / f"{dtype}-{number}.heed-index"
                start = time.perf_counter()
                done = subprocess.run([heed, "index", data, "--model", model, "--out", index, "--dtype", dtype, "--json", "--quiet"],
                                      check=True, capture_output=True, text=True)
                rates[f"heed {dtype}"].append(json.loads(done.stdout)["chunks_added"] / (time.perf_counter() - start))
                start = time.perf_counter()
                made.encode(texts, batch_size=32)
                rates[f"sentence-transformers {dtype}"].append(len(texts) / (time.perf_counter() - start))
            print({name: round(values[-1], 1) for name, values in rates.items()}, file=sys.stderr, flush=True)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, value in medians.items():
        print(f"{name:26} {value:8.1f} sentences/s")
    for dtype in peers:
        print(f"ratio in {dtype}: {medians[f'heed {dtype}'] / medians[f'sentence-transformers {dtype}']:.2f}")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
