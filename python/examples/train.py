"""A training run, its curves and its model: python train.py TEXT RUN."""

from __future__ import annotations

import sys

import heed


def main(text: str, out: str) -> heed.Run:
    run = heed.train("lm", text, out, tokenizer="char", layers=2, heads=2, width=32, context=32, batch=8, steps=20)
    print(f"loss {run['loss']:.2f} after {run['steps']} steps; {len(run.metrics)} lines of metrics")
    run.curves().save(f"{out}/curves.svg")
    return run


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
