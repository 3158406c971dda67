#!/usr/bin/env bash
# training_weights.sh HEED: trains twelve tiny models for six steps each with fixed seeds and prints the SHA-256 of
# their weights. A change that must not change what is computed is tried with the program before and after it, on
# one machine: diff <(tools/training_weights.sh OLD) <(tools/training_weights.sh NEW) prints nothing.
set -euo pipefail
heed=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HEED_CACHE_LIMIT=1 XDG_CACHE_HOME=$work/cache
{
  "$heed" data dates --count 200 -o dates.tsv
  "$heed" data coreference --count 200 -o classes.tsv
  "$heed" data plus-two --count 64 -o numbers.jsonl
  "$heed" data shapes --count 48 -o pictures
} 2>/dev/null
cut -f2 classes.tsv >text.txt
mkdir -p squares/dark squares/light
for i in 1 2 3 4 5 6 7 8; do
  { printf 'P2 8 8 255\n'; seq 1 64 | awk -v i="$i" '{ print ($1 * i) % 90 }'; } >squares/dark/$i.pgm
  { printf 'P2 8 8 255\n'; seq 1 64 | awk -v i="$i" '{ print 255 - ($1 * i) % 90 }'; } >squares/light/$i.pgm
done

train() { # name options…
  local name=$1
  shift
  "$heed" train --layers 2 --heads 2 --width 32 --context 32 --batch 8 --steps 6 --warmup 2 --seed 7 --dropout 0.1 \
    --eval-texts 4 --quiet --out "$name" "$@" >/dev/null
  printf '%s  %s\n' "$(sha256sum <"$name/model/model.safetensors" | cut -d' ' -f1)" "$name"
}
train gpt2 --task lm --arch gpt2 --data text.txt --tokenizer bpe:300 --micro-batch 3
train llama --task lm --arch llama --data text.txt --tokenizer char
train qwen2 --task lm --arch qwen2 --data text.txt --tokenizer char --ema 0.9
train bert --task mlm --arch bert --data text.txt --tokenizer wordpiece:200
train sentiment --task classify --data classes.tsv --tokenizer bpe:300 --label-smoothing 0.1
for arch in heed-seq2seq heed-rnn-seq2seq marian t5; do
  train "$arch" --task translate --arch $arch --data dates.tsv --tokenizer char
done
train vit --task image-classify --data squares
train captioner --task caption --data pictures --tokenizer char --recompute
train regressor --task regress --data numbers.jsonl --schedule linear
