"""heed beside llama.cpp on one GGUF: compare_llama.py HEED MODEL [--kv f32|f16] [--no-flash] [--tokens N]
[--perplexity TEXT --context N --count N].

Greedy answers to ten prompts: where heed's token is not llama.cpp's, the gap between both in llama.cpp's own logits is
shown. llama.cpp then goes on from heed's token, so that every step of an answer is compared and not only those up to
the first difference. With --twin llama.cpp is compared with itself instead, reading its prompts a token at a time: what
another order of the same sums changes. With --perplexity the loss over the first tokens of a text, in windows as
`heed eval` takes them. Not part of the test suite: it needs llama-cpp-python.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp as api
import numpy as np

TIE = 1e-3
PROMPTS = [
    "The capital of France is", "Write a function that adds two numbers:\ndef add(a, b):",
    "Once upon a time, there was a little robot who", "The three most important ideas of linear algebra are",
    "Q: What is the boiling point of water at sea level?\nA:", "import numpy as np\n\ndef softmax(x):",
    "Dear Sir or Madam,\n\nI am writing to", "In 1969, the first humans landed on",
    "1, 1, 2, 3, 5, 8, 13,", "The difference between a process and a thread is",
]
QUIET = api.llama_log_callback(lambda level, text, data: None)


class Llama:
    def __init__(self, path, positions, kv, flash, chunk=512):
        api.llama_log_set(QUIET, None)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(str(path).encode(), api.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp cannot read {path}")
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = positions, max(chunk, 1), max(chunk, 1)
        options.n_threads = options.n_threads_batch = 2
        options.type_k = options.type_v = {"f32": 0, "f16": 1}[kv]
        options.flash_attn_type = 1 if flash else 0
        self.context = api.llama_init_from_model(self.model, options)
        self.vocabulary = api.llama_model_get_vocab(self.model)
        self.words, self.chunk, self.at = api.llama_vocab_n_tokens(self.vocabulary), chunk, 0
        self.batch = api.llama_batch_init(max(chunk, 1), 0, 1)

    def tokens(self, text):
        raw = text.encode()
        ids = (api.llama_token * (len(raw) + 8))()
        count = api.llama_tokenize(self.vocabulary, raw, len(raw), ids, len(ids), True, False)
        return list(ids[:count])

    def clear(self):
        api.llama_memory_clear(api.llama_get_memory(self.context), True)
        self.at = 0

    def feed(self, ids, every=False):
        """Logits [n, words] of the last token, or of every one."""
        rows = []
        for begin in range(0, len(ids), self.chunk):
            part = ids[begin:begin + self.chunk]
            b = self.batch
            b.n_tokens = len(part)
            for i, token in enumerate(part):
                b.token[i], b.pos[i], b.n_seq_id[i] = token, self.at + i, 1
                b.seq_id[i][0] = 0
                b.logits[i] = every or begin + i == len(ids) - 1
            if api.llama_decode(self.context, b) != 0:
                raise RuntimeError("llama_decode failed")
            self.at += len(part)
            for i in range(len(part)) if every else ([len(part) - 1] if begin + len(part) == len(ids) else []):
                rows.append(np.ctypeslib.as_array(api.llama_get_logits_ith(self.context, i), (self.words,)).copy())
        return np.stack(rows)

    def ends(self, token):
        return api.llama_vocab_is_eog(self.vocabulary, token)


def heed_answer(option, prompt):
    command = [option.heed, "generate", option.model, "--prompt", prompt, "--max-tokens", str(option.tokens),
               "--temperature", "0", "--kv-type", option.kv, "--json", "--quiet"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["ids"]


def llama_answer(llama, prompt, count):
    """Greedy, one token at a time."""
    llama.clear()
    logits, ids = llama.feed(llama.tokens(prompt))[-1], []
    for _ in range(count):
        ids.append(int(logits.argmax()))
        if llama.ends(ids[-1]):
            break
        logits = llama.feed(ids[-1:])[-1]
    return ids


def greedy(option):
    llama = Llama(option.model, 1024, option.kv, not option.no_flash)
    twin = Llama(option.model, 1024, option.kv, option.no_flash, 1) if option.twin else None
    equal = 0
    steps, apart, largest = 0, 0, 0.0
    for prompt in PROMPTS:
        ours = llama_answer(twin, prompt, option.tokens) if twin else heed_answer(option, prompt)
        llama.clear()
        logits = llama.feed(llama.tokens(prompt))[-1]
        gaps = []
        for i, token in enumerate(ours):
            gap = float(logits.max() - logits[token])
            steps += 1
            if gap > 0:
                gaps.append((i, gap))
            if llama.ends(token):
                break
            logits = llama.feed([token])[-1]
        beyond = [g for g in gaps if g[1] > TIE]
        apart, largest = apart + len(beyond), max([largest, *(g for _, g in gaps)])
        equal += not beyond
        print(f"{prompt[:40]!r:44} {len(ours)} tokens: " +
              (", ".join(f"{g:.4f} at {i}" for i, g in gaps) if gaps else "equal"), flush=True)
    print(f"{equal} of {len(PROMPTS)} answers equal up to ties of {TIE}; {apart} of {steps} steps beyond, "
          f"largest gap {largest:.4f}")


def perplexity(option):
    text = Path(option.perplexity).read_text()
    llama = Llama(option.model, option.context, option.kv, not option.no_flash)
    ids = llama.tokens(text[:20 * option.count])[:option.count]
    done, total = 1, 0.0
    begin = 0
    while done < len(ids):
        end = min(begin + option.context, len(ids))
        llama.clear()
        logits = llama.feed(ids[begin:end], every=True)
        for i in range(done, end):
            row = logits[i - begin - 1].astype(np.float64)
            total += np.log(np.exp(row - row.max()).sum()) + row.max() - row[ids[i]]
        done, begin = end, begin + option.context // 2
    theirs = np.exp(total / (len(ids) - 1))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        raw = b""
        piece = (ctypes.c_char * 512)()
        for token in ids:
            raw += piece.raw[:api.llama_token_to_piece(llama.vocabulary, token, piece, 512, 0, False)]
        file.write(raw.decode(errors="ignore"))
        file.flush()
        command = [option.heed, "eval", option.model, "--data", file.name, "--context", str(option.context), "--json",
                   "--quiet"]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"perplexity: heed {ours['perplexity']:.4f} ({ours['tokens']} tokens), llama.cpp {theirs:.4f} "
          f"({len(ids) - 1}); ratio {ours['perplexity'] / theirs:.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heed")
    parser.add_argument("model")
    parser.add_argument("--kv", default="f32", choices=("f32", "f16"))
    parser.add_argument("--no-flash", action="store_true")
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--perplexity", default="")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--count", type=int, default=8192)
    option = parser.parse_args()
    if option.perplexity:
        perplexity(option)
    else:
        greedy(option)


if __name__ == "__main__":
    main()
