#!/usr/bin/env bash
# check.sh HEED PROGRAMS: runs each program on small models that heed trains first.
set -eu
heed=$1 programs=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$(cd "$(dirname "$0")" && pwd)
cd "$work"
fail() { echo "FAILED: $*"; exit 1; }
# A line of code is neither blank, a comment, an #include, the using directive nor a brace alone.
for program in "$source"/*.cc; do
  lines=$(grep -cvE '^[[:space:]]*($|//|#include|using namespace|[{}]+;?$)' "$program")
  [ "$lines" -le 15 ] || fail "$program has $lines lines of code; 15 are allowed"
done
for i in $(seq 40); do printf 'good\tthe film was good %d\nbad\tthe film was bad %d\n' "$i" "$i"; done >reviews.tsv
cut -f2 reviews.tsv >texts.txt
small="--layers 1 --heads 2 --width 16 --context 16 --steps 4 --quiet --batch 8"
# shellcheck disable=SC2086
"$heed" train --task classify --arch bert --tokenizer wordpiece:120 --data reviews.tsv --out classifier $small
# shellcheck disable=SC2086
"$heed" train --task lm --tokenizer bpe:300 --data texts.txt --out lm $small

"$programs/train_transformer" >out || fail train_transformer
[ "$(wc -l <out)" = 3 ] && awk 'NR == 1 { first = $4 } END { exit !($4 < first / 3) }' out || fail "train_transformer does not learn: $(cat out)"
"$programs/stream_text" lm "the film" >out && [ -s out ] || fail stream_text
[ "$("$programs/classify" classifier "the film was good" "bad" | wc -l)" = 2 ] || fail classify
"$programs/draw_attention" lm "the film was good" map.svg && grep -q "<svg" map.svg || fail draw_attention
"$programs/register_model" texts.txt own | grep -q my-gpt || fail register_model
echo passed
