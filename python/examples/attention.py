"""Attention of arrays, and what a model attends to."""

import sys

import numpy as np

import heed

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((4, 8), dtype=np.float32) for _ in range(3))
output, weights = heed.attention(q, k, v, causal=True)
print(output.shape, weights[0].tolist())

if len(sys.argv) > 1:  # a model folder
    model = heed.load(sys.argv[1])
    with heed.record() as recorded:
        model([model.tokenizer.encode("the quick brown fox")])
    first: np.ndarray = recorded.attention(layer=0, head=0)
    print(first.sum(axis=-1))
    recorded.view(model.tokenizer.labels("the quick brown fox")).save("attention.html")
