#!/usr/bin/env python3
"""How long Ctrl-C takes: interrupt.py [TURNS [WORD…]]

SIGINT is sent at random moments of six long calls (or of those whose names have one of the words); prints the milliseconds from
there to KeyboardInterrupt in Python. A training run saves its checkpoint in that time.
"""
from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

MODEL = """
import heed, sys, time
heed.manual_seed(1)
tokenizer = heed.Tokenizer.train(["ab"], "char", min_frequency=1)
model = heed.create_model({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 16384,
                           "vocab_size": tokenizer.vocab_size}, tokenizer=tokenizer).eval()
x = heed.randn(1, 12, 16384, 64)
two = heed.randn(1, 2, 16384, 64)
wide = heed.randn(3000, 3000, requires_grad=True), heed.randn(3000, 100000)
"""
CALLS = {
    "prefill of 16,000 tokens": "next(model.generate('ab' * 8000, max_new_tokens=1))",
    "forward of 16,000 tokens": "model([[1] * 16000])",
    "attention over 16,384 tokens": "heed.attention(x, x, x)",
    "its weights, 2 heads of 1 GB": "heed.attention(two, two, two)",  # the output first, then steps of 2 GB each
    "product and backward": "(wide[0] @ wide[1]).sum().backward()",
    "heed.train, 4 blocks of width 128": "heed.train('lm', data, folder + '/run', progress=False, tokenizer='char', layers=4, heads=4, "
                                         "width=128, context=128, batch=16, steps=10**6, eval_every=10**6, checkpoint_every=10**6)",
}
PROGRAM = """
data, folder = sys.argv[1:3]
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print(time.clock_gettime(time.CLOCK_MONOTONIC), flush=True)
"""


def milliseconds(call: str, delay: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        data = folder + "/text.txt"
        with open(data, "w", encoding="utf-8") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 5000)
        setup = "import heed, sys, time\n" if "heed.train" in call else MODEL
        code = textwrap.dedent(setup) + PROGRAM.format(call=call)
        process = subprocess.Popen([sys.executable, "-c", code, data, folder], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(delay)
        sent = time.clock_gettime(time.CLOCK_MONOTONIC)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
        return 1000 * (float(said) - sent)


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    moments = random.Random(1)
    for name, call in CALLS.items():
        if len(sys.argv) > 2 and not any(word in name for word in sys.argv[2:]):
            continue
        latest = 3.0 if name.startswith("its weights") else 1.5
        times = [milliseconds(call, moments.uniform(0.5, latest)) for _ in range(turns)]
        print(f"{name:34} median {statistics.median(times):6.1f} ms, most {max(times):6.1f} ms of {turns}", flush=True)


if __name__ == "__main__":
    main()
