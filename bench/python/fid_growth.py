"""Processor time of an encoder-decoder of t5-small's sizes on 5 to 40 passages of 200 tokens, on one thread: fid_growth.py

Processor time, unlike the clock, does not grow with what else the machine does. Prints the time per passage as a fraction of that at
5 passages: 1.00 is linear growth.
"""
import time

import numpy as np

import heed

heed.set_num_threads(1)
model = heed.create_model({"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
                           "vocab_size": 4096, "decoder_start_token_id": 0}, seed=1).eval()
first = 0.0
for passages in (5, 10, 20, 40):
    ids, start = np.full((passages, 200), 5), np.zeros((passages, 1), int)
    times = []
    for _ in range(3):
        begin = time.process_time()
        with heed.no_grad():
            model(ids, decoder_input_ids=start, want_logits=False)
        times.append(time.process_time() - begin)
    first = first or min(times) / passages
    print(f"{passages:2} passages: {1000 * min(times):6.0f} ms, {min(times) / passages / first:.2f} of linear growth", flush=True)
