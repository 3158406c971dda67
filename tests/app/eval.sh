#!/usr/bin/env bash
# heed eval from the outside: a trained model reads text it knows better than text it does not, and
# quantised weights cost little.
set -euo pipefail
heed=$1
data=${HEED_SHARED:-}/stories260k
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}
got=0
"$heed" eval "$2/tests/golden/generation/t5" --text "$2/README.md" >"$work/out" 2>"$work/err" || got=$?
[ "$got" -ne 0 ] || fail "a model that does not continue text must be refused"
[ -d "$data" ] || { echo "needs stories260k in the folder HEED_SHARED"; exit 77; }
model=$data/stories260K.bin
perplexity() { "$heed" eval "$@" --json --quiet | sed 's/.*"perplexity":\([0-9.e+]*\).*/\1/'; }
known=$(perplexity "$model" --tokenizer "$data/tok512.bin" --text "$data/expected_stdout_t0_n200.txt")
other=$(perplexity "$model" --tokenizer "$data/tok512.bin" --text "$2/LICENSE" --context 64)
"$heed" convert "$model" "$work/q8.gguf" --tokenizer "$data/tok512.bin" --dtype q8_0 --quiet
exact=$(perplexity "$work/q8.gguf" --text "$data/expected_stdout_t0_n200.txt")
echo "its own story $known, quantised $exact; a licence $other"
awk -v a="$known" -v b="$other" -v c="$exact" 'BEGIN { exit !(a > 1 && a < 5 && b > 4 * a && c < 1.05 * a && c > 0.95 * a) }' ||
  fail "perplexities $known, $other, $exact"
