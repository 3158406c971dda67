#!/usr/bin/env bash
# What heed trains opens in Hugging Face's tokenizers and gives the same ids and text there.
set -euo pipefail
heed=$1
source=$2
source "$source/tests/support/python.bash"
python=$(python_with tokenizers) || { echo "skipped: no Python with Hugging Face tokenizers"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" - "$heed" "$work" <<'PY'
import json, random, subprocess, sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

heed, work = sys.argv[1:]
random.seed(4)
words = ("the animal did n't cross street because it was too tired wide 동물은 너무 피곤해서 길을 건너지 "
         "않았다 naïve café 日本語 12 345 6.7 I'm you're ﬁne Ⅳ 🦙 😶\u200d🌫️ e\u0301 \u1100\u1161 <s> [MASK]").split()
lines = [" ".join(random.choices(words, k=random.randint(1, 12))) for _ in range(3000)]
data = work + "/data.txt"
open(data, "w", encoding="utf8").write("\n".join(lines) + "\n")
odd = ["", " ", "  two  spaces ", "tab\tand\u3000wide", "\ufeffbom", "a" * 300, "한글" * 200, "x\u200by",
       "ΑΒΓ ÀÉ İı ß ǅ", "¿Qué?", "\u0000nul", "𝒜𝓫", "ㅎㅎ ㅋㅋ"]
texts = random.sample(lines, 200) + odd


def heed_lines(*arguments, lines):
    run = subprocess.run([heed, "tokenize", *arguments], input=("\n".join(lines) + "\n").encode(),
                         capture_output=True, check=True)
    return run.stdout.decode().split("\n")[:-1]


bad = 0
for kind in ["bpe:600", "wordpiece:400", "unigram:120", "char"]:
    folder = work + "/" + kind.split(":")[0]
    subprocess.run([heed, "tokenize", "--train", kind, "--data", data, "-o", folder, "--quiet"], check=True)
    theirs = Tokenizer.from_file(folder + "/tokenizer.json")
    for special in [True, False]:
        ours = heed_lines(folder, *([] if special else ["--no-special-tokens"]), lines=texts)
        for text, line in zip(texts, ours):
            want = theirs.encode(text, add_special_tokens=special).ids
            if [int(i) for i in line.split()] != want:
                bad += 1
                print(kind, special, repr(text), "heed", line, "hf", want)
    ids = [theirs.encode(text).ids for text in texts]
    ours = heed_lines(folder, "--decode", "--json", lines=[" ".join(map(str, i)) for i in ids])
    for i, line in zip(ids, ours):
        if json.loads(line)["text"] != theirs.decode(i):
            bad += 1
            print(kind, "decode", i, line, repr(theirs.decode(i)))

# The merges themselves, learned by their trainer on the same lines.
theirs = Tokenizer(models.BPE())
theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
theirs.train_from_iterator([open(data, encoding="utf8").read()], trainers.BpeTrainer(
    vocab_size=600, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
ours = Tokenizer.from_file(work + "/bpe/tokenizer.json")
if ours.get_vocab() != theirs.get_vocab():
    bad += 1
    print("vocabulary differs:", set(ours.get_vocab().items()) ^ set(theirs.get_vocab().items()))
sys.exit(bad > 0)
PY
