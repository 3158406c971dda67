"""heed beside llama.cpp on one GGUF: compare_llama.py HEED MODEL [--kv f32|f16] [--no-flash] [--tokens N] [--only N…]
[--perplexity TEXT --context N --count N] [--exact F32.gguf --text TEXT --context N --count N].

Greedy answers to ten prompts: where heed's token is not llama.cpp's, the gap between both in llama.cpp's own logits is
shown, and where that is more than a tie, the gap in heed's logits, too. llama.cpp then goes on from heed's token, so
that every step of an answer is compared and not only those up to the first difference. With --twin llama.cpp is
compared with itself instead, reading its prompts a token at a time: what another order of the same sums changes. With
--perplexity the perplexity of the first tokens of a text, in chunks as llama.cpp's own program takes them: without
overlap, the second half of each scored. With --exact the error of both programs' logits: F32.gguf holds the same
weights in f32 (`heed convert MODEL F32.gguf --dtype f32`), so the difference to it is what the rounding of activations
in products with quantised weights costs. Not part of the test suite: it needs llama-cpp-python, numpy and safetensors.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp as api
import numpy as np
from safetensors.numpy import load_file, save_file

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


def heed_gaps(option, prompt, ours, theirs):
    """At each step, by how much heed prefers its own token to llama.cpp's."""
    logits = heed_forward(option, option.model, np.array(prompt + ours, np.int64))[len(prompt) - 1:]
    return [float(row[a] - row[b]) for row, a, b in zip(logits, ours, theirs)]


def greedy(option):
    llama = Llama(option.model, 1024, option.kv, not option.no_flash)
    twin = Llama(option.model, 1024, option.kv, option.no_flash, 1) if option.twin else None
    equal = 0
    steps, apart, largest = 0, 0, 0.0
    prompts = [PROMPTS[i] for i in option.only] if option.only else PROMPTS
    for prompt in prompts:
        ours = llama_answer(twin, prompt, option.tokens) if twin else heed_answer(option, prompt)
        llama.clear()
        logits = llama.feed(llama.tokens(prompt))[-1]
        gaps, theirs = [], []
        for i, token in enumerate(ours):
            theirs.append(int(logits.argmax()))
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
        if beyond and not twin:
            own = heed_gaps(option, llama.tokens(prompt), ours, theirs)
            print("    in heed's logits: " + ", ".join(f"{own[i]:.4f} at {i}" for i, _ in beyond), flush=True)
    print(f"{equal} of {len(prompts)} answers equal up to ties of {TIE}; {apart} of {steps} steps beyond, "
          f"largest gap {largest:.4f}")


def chunks_of(option, llama, text):
    """[chunks, context] tokens of the beginning of a text."""
    ids = llama.tokens(Path(text).read_text()[:20 * option.count])[:option.count]
    count = len(ids) // option.context
    chunks = np.array(ids[:count * option.context], np.int64).reshape(count, option.context)
    if api.llama_vocab_get_add_bos(llama.vocabulary):
        chunks[:, 0] = api.llama_vocab_bos(llama.vocabulary)
    return chunks


def heed_forward(option, model, ids):
    with tempfile.TemporaryDirectory() as folder:
        save_file({"input_ids": ids[None]}, folder + "/in.safetensors")
        subprocess.run([option.heed, "forward", model, "--input", folder + "/in.safetensors", "--output",
                        folder + "/out.safetensors", "--quiet"], check=True)
        return load_file(folder + "/out.safetensors")["logits"][0]


def normalised(logits):
    logits = logits.astype(np.float64)
    most = logits.max(-1, keepdims=True)
    return logits - most - np.log(np.exp(logits - most).sum(-1, keepdims=True))


def perplexity(option):
    llama = Llama(option.model, option.context, option.kv, not option.no_flash)
    losses = {"heed": [], "llama.cpp": []}
    for ids in chunks_of(option, llama, option.perplexity):
        llama.clear()
        rows = np.arange(option.context // 2, option.context - 1)
        for name, logits in (("heed", heed_forward(option, option.model, ids)),
                             ("llama.cpp", llama.feed(list(ids), every=True))):
            losses[name] += list(-normalised(logits[rows])[np.arange(len(rows)), ids[rows + 1]])
        ours, theirs = (float(np.exp(np.mean(losses[name]))) for name in ("heed", "llama.cpp"))
        print(f"perplexity of {len(losses['heed'])} tokens: heed {ours:.4f}, llama.cpp {theirs:.4f}; ratio "
              f"{ours / theirs:.5f}", flush=True)


def exact(option):
    llama = Llama(option.model, option.context, option.kv, not option.no_flash)
    twin = Llama(option.model, option.context, option.kv, option.no_flash, 1) if option.twin else None
    figures = {}
    for ids in chunks_of(option, llama, option.text):
        llama.clear()
        right = normalised(heed_forward(option, option.exact, ids))
        ours = normalised(heed_forward(option, option.model, ids))
        theirs = normalised(llama.feed(list(ids), every=True))
        pairs = [("heed", ours, right), ("llama.cpp", theirs, right), ("heed to llama.cpp", ours, theirs)]
        if twin:
            twin.clear()
            pairs.append(("llama.cpp's twin", normalised(twin.feed(list(ids), every=True)), theirs))
        for name, got, wanted in pairs:
            figures.setdefault(name, []).append((np.square(got - wanted).mean(),
                                                 (np.exp(wanted) * (wanted - got)).sum(-1).mean(),
                                                 (got.argmax(-1) == wanted.argmax(-1)).mean()))
    for name, rows in figures.items():
        square, divergence, same = np.mean(rows, 0)
        print(f"{name:18} log-probabilities off by {np.sqrt(square):.5f} (root mean square), divergence "
              f"{divergence:.3e}, the same best token for {100 * same:.2f} % of {option.context * len(rows)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("heed")
    parser.add_argument("model")
    parser.add_argument("--kv", default="f32", choices=("f32", "f16"))
    parser.add_argument("--no-flash", action="store_true")
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--only", type=int, nargs="*", help="prompts by number, from 0")
    parser.add_argument("--perplexity", default="")
    parser.add_argument("--exact", default="")
    parser.add_argument("--text", default="")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--count", type=int, default=8192)
    option = parser.parse_args()
    if option.exact:
        exact(option)
    elif option.perplexity:
        perplexity(option)
    else:
        greedy(option)


if __name__ == "__main__":
    main()
