#!/usr/bin/env bash
# heed convert, info and forward from the outside: round trips, exit codes, messages.
set -euo pipefail
heed=$1
models=$2/tests/golden/models
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
# expect CODE WORD command…: the exit code, and a message that has the word.
expect() {
  local code=$1 word=$2 got=0
  shift 2
  "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" -eq "$code" ] || fail "$* gave $got instead of $code: $(cat "$work/err")"
  grep -q -- "$word" "$work/err" "$work/out" || fail "$* does not say '$word': $(cat "$work/err")"
}

for name in gpt2_lm gpt2_untied llama_gqa llama_tied bert_mlm bert_classify; do
  "$heed" convert "$models/$name" "$work/$name" --quiet
  "$heed" convert "$models/$name" "$work/$name.gguf" --quiet
  "$heed" convert "$work/$name.gguf" "$work/$name.back" --quiet
  cmp "$work/$name/model.safetensors" "$work/$name.back/model.safetensors" || fail "$name"
  for model in "$models/$name" "$work/$name.gguf" "$work/$name.back"; do
    "$heed" forward "$model" --input "$models/$name/inputs.safetensors" --output "$work/out.safetensors" --quiet
    [ -f "$work/$name.first" ] || cp "$work/out.safetensors" "$work/$name.first"
    cmp "$work/out.safetensors" "$work/$name.first" || fail "$model gives other numbers"
  done
done

expect 0 '"parameters"' "$heed" info "$work/llama_gqa.gguf" --json
expect 0 'to train' "$heed" info "$models/vit_classify"
expect 2 'q8_0' "$heed" convert "$models/gpt2_lm" "$work/quantised" --dtype q8_0
expect 2 '--dtype' "$heed" convert "$models/gpt2_lm" "$work/x.gguf" --dtype q3
expect 0 'q4_k_m' "$heed" convert "$models/llama_gqa" "$work/mixed.gguf" --dtype q4_k_m
expect 0 '"dtype":"f32"' "$heed" convert "$models/llama_gqa" "$work/plain.gguf" --json
expect 3 'imatrix' "$heed" convert "$models/llama_gqa" "$work/x.gguf" --dtype q4_k_m --imatrix "$work/mixed.gguf"
expect 2 'bart' "$heed" convert "$models/bart" "$work/bart.gguf"
expect 0 't5' "$heed" convert "$models/t5_relu" "$work/t5.gguf"
expect 3 'no such' "$heed" info "$work/nothing"
expect 3 'config.json' "$heed" info "$work"
expect 3 'regular file' "$heed" forward "$models/gpt2_lm" --input /dev/zero --output "$work/o"
expect 3 'no input' "$heed" forward "$models/gpt2_lm" --input "$models/gpt2_lm/model.safetensors" --output "$work/o"
expect 2 'labels' "$heed" forward "$models/gpt2_base" --input "$models/gpt2_base/inputs.safetensors" --output "$work/o" --grads
mkfifo "$work/pipe.gguf"
expect 3 'pipe.gguf' timeout 5 "$heed" info "$work/pipe.gguf"
head -c 1000 "$work/llama_gqa.gguf" >"$work/cut.gguf"
expect 3 'cut.gguf' "$heed" info "$work/cut.gguf"
echo ok
