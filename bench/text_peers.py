#!/usr/bin/env python3
"""GPT-2 encoding on one thread: heed, Hugging Face tokenizers and tiktoken, in turn, in one run.
Usage: text_peers.py BENCH_TEXT [FOLDER WITH gpt2.vocab.json AND gpt2.merges.txt] [TEXT]"""
import json, os, subprocess, sys, time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tiktoken
from tokenizers import Tokenizer, models, pre_tokenizers

bench = sys.argv[1]
folder = sys.argv[2] if len(sys.argv) > 2 else "../shared/data/tokenizers"
file = sys.argv[3] if len(sys.argv) > 3 else "../shared/data/wikitext2/wiki.test.raw"
text = open(file, encoding="utf8", newline="").read()
megabytes = len(text.encode()) / 1e6

hugging_face = Tokenizer(models.BPE.from_file(folder + "/gpt2.vocab.json", folder + "/gpt2.merges.txt"))
hugging_face.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)

printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
byte_of = {chr(b): b for b in printable}
byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
ranks = {bytes(byte_of[c] for c in token): i
         for token, i in json.load(open(folder + "/gpt2.vocab.json", encoding="utf8")).items()
         if token != "<|endoftext|>"}
pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
tik = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks,
                        special_tokens={"<|endoftext|>": 50256})

speeds = {"heed": [], "Hugging Face tokenizers": [], "tiktoken": []}
for _ in range(3):
    run = subprocess.run([bench, file, folder + "/gpt2.vocab.json"], capture_output=True, check=True)
    speeds["heed"].append(json.loads(run.stdout.splitlines()[-1])["megabytes_per_second"])
    for name, encode in [("Hugging Face tokenizers", hugging_face.encode), ("tiktoken", tik.encode_ordinary)]:
        start = time.perf_counter()
        encode(text)
        speeds[name].append(megabytes / (time.perf_counter() - start))
ours = max(speeds["heed"])
for name, values in speeds.items():
    print(f"{name:25} {max(values):8.1f} MB/s   heed is {ours / max(values):5.1f} times as fast")
