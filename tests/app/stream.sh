#!/usr/bin/env bash
# A stream of lines never dies of one bad line: blank and over-long lines on classify, embed, generate and fill.
set -eu
heed=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

for i in $(seq 40); do
  printf 'good\tthe film was really good number %d\nbad\tthe film was really bad number %d\n' "$i" "$i"
done >"$work/reviews.tsv"
cut -f2 "$work/reviews.tsv" >"$work/texts.txt"
small="--layers 1 --heads 2 --width 16 --context 16 --steps 4 --quiet --batch 8"
# shellcheck disable=SC2086
"$heed" train --task classify --arch bert --tokenizer wordpiece:120 --data "$work/reviews.tsv" --out "$work/classify" $small
# shellcheck disable=SC2086
"$heed" train --task mlm --tokenizer wordpiece:120 --data "$work/texts.txt" --out "$work/mlm" $small
# shellcheck disable=SC2086
"$heed" train --task lm --tokenizer bpe:300 --data "$work/texts.txt" --out "$work/lm" $small

long=$(printf 'film %.0s' $(seq 60))
printf 'the film was good\n\n%s\nthe film was bad\n' "$long" >"$work/lines.txt"

"$heed" classify "$work/classify" <"$work/lines.txt" >"$work/out" 2>"$work/err" || fail "classify: exit $?"
[ "$(wc -l <"$work/out")" = 4 ] || fail "classify answers 4 lines with $(wc -l <"$work/out")"
[ -z "$(sed -n 2p "$work/out")" ] || fail "classify answers a blank line with text"
grep -q "line 3" "$work/err" || fail "classify does not name the line that was cut"
# Also where nothing goes around a text, so that a blank line has no tokens.
# shellcheck disable=SC2086
"$heed" train --task classify --tokenizer bpe:300 --data "$work/reviews.tsv" --out "$work/plain" $small
"$heed" classify "$work/plain" <"$work/lines.txt" >"$work/out" 2>"$work/err" || fail "classify without special tokens: exit $?"
[ "$(wc -l <"$work/out")" = 4 ] && [ -z "$(sed -n 2p "$work/out")" ] || fail "classify without special tokens loses lines"
! grep -q "line 2" "$work/err" || fail "classify complains about a blank line: $(cat "$work/err")"
code=0
"$heed" classify "$work/classify" --no-truncate <"$work/lines.txt" >"$work/out" 2>"$work/err" || code=$?
[ "$code" = 3 ] || fail "classify --no-truncate: exit $code"
[ "$(wc -l <"$work/out")" = 4 ] && [ -z "$(sed -n 3p "$work/out")" ] && [ -n "$(sed -n 4p "$work/out")" ] || fail "classify --no-truncate loses lines"

"$heed" embed "$work/classify" <"$work/lines.txt" >"$work/out" 2>"$work/err" || fail "embed of a fine-tuned encoder: exit $?"
[ "$(wc -l <"$work/out")" = 4 ] && [ -z "$(sed -n 2p "$work/out")" ] || fail "embed loses lines"
"$heed" embed "$work/classify" -o "$work/vectors.npy" --quiet <"$work/texts.txt"
head -c 6 "$work/vectors.npy" | grep -q NUMPY || fail "embed -o vectors.npy"
"$heed" embed "$work/classify" --format csv --text "the film" | grep -qE '^-?[0-9.e-]+(,-?[0-9.e-]+){15}$' || fail "embed --format csv"

code=0
"$heed" generate "$work/lm" --max-tokens 3 --batch 2 <"$work/lines.txt" >"$work/out" 2>"$work/err" || code=$?
[ "$code" = 3 ] || fail "generate: exit $code"
grep -q "line 3" "$work/err" || fail "generate does not name the line that is too long"
"$heed" generate "$work/lm" --max-tokens 3 --truncate --json <"$work/lines.txt" >"$work/out" 2>/dev/null || fail "generate --truncate: exit $?"
[ "$(wc -l <"$work/out")" = 4 ] || fail "generate --json loses lines"

"$heed" fill "$work/mlm" --text "the film was [MASK]" --top-k 3 --json >"$work/out"
grep -qE '^\[\{"position":[0-9]+,"candidates":\[\{"token":"[^"]+","id":[0-9]+,"probability":[0-9.e-]+\}(,\{[^}]+\}){2}\]\}\]$' "$work/out" || fail "fill --json: $(cat "$work/out")"
[ "$("$heed" fill "$work/mlm" --text "the <mask> was good" --top-k 2 | wc -l)" = 2 ] || fail "fill prints a line per candidate"
code=0
"$heed" fill "$work/mlm" --text "no gap" >/dev/null 2>"$work/err" || code=$?
[ "$code" = 3 ] && grep -qF "[MASK]" "$work/err" || fail "fill without a mask"

code=0
"$heed" translate "$work/lm" --text x 2>"$work/err" || code=$?
[ "$code" = 2 ] && grep -q "needs an encoder-decoder model; this folder holds a decoder" "$work/err" || fail "translate with a decoder: $(cat "$work/err")"
code=0
HF_HUB_CACHE=$work "$heed" generate someone/absent --prompt x 2>"$work/err" || code=$?
[ "$code" = 3 ] && grep -q "hf download someone/absent" "$work/err" || fail "a model that is in no cache"
echo passed
