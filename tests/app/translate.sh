#!/usr/bin/env bash
# heed translate from the outside: order kept for any batch, alignments of attention and LSTM models.
set -eu
heed=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$heed" data reverse --count 300 --seed 3 -o "$work/pairs.tsv" --quiet
cut -f1 "$work/pairs.tsv" | head -40 >"$work/lines"
for arch in marian heed-rnn-seq2seq; do
  run=$work/$arch
  "$heed" train --task translate --arch $arch --data "$work/pairs.tsv" --tokenizer char --layers 2 --heads 2 \
    --width 32 --steps 20 --batch 16 --out "$run" --quiet >/dev/null
  for batch in 1 7 64; do
    "$heed" translate "$run" --batch $batch --beam-size 2 --max-tokens 12 --alignment soft <"$work/lines" >"$work/out.$batch"
  done
  cmp "$work/out.1" "$work/out.7" && cmp "$work/out.1" "$work/out.64" || fail "$arch: the batch changed the output"
  [ "$(wc -l <"$work/out.1")" -eq 40 ] || fail "$arch: 40 lines in, $(wc -l <"$work/out.1") out"
  # every row of weights sums to 1
  sed 's/.* ||| //' "$work/out.1" | tr ' ' '\n' | awk -F, '{s=0; for(i=1;i<=NF;i++) s+=$i; if (s<0.99||s>1.01) exit 1}' ||
    fail "$arch: weights that do not sum to 1"
  "$heed" translate "$run" --beam-size 2 --max-tokens 12 --alignment hard <"$work/lines" >"$work/hard"
  grep -qE ' \|\|\| [0-9]+-0( [0-9]+-[0-9]+)*$' "$work/hard" || fail "$arch: no pairs"
  # the pair of each token is the largest weight of its row
  paste -d'|' <(sed 's/.* ||| //' "$work/out.1") <(sed 's/.* ||| //' "$work/hard") | awk -F'|' '{
    n=split($1, rows, " "); split($2, pairs, " ")
    for (q=1; q<=n; q++) { m=split(rows[q], w, ","); split(pairs[q], p, "-")
      for (k=1; k<=m; k++) if (w[k] > w[p[1]+1] + 1e-4) exit 1 } }' || fail "$arch: hard and soft differ"
done
"$heed" translate "$work/marian" --alignment soft --json --text abc --max-tokens 4 | grep -q '"alignment":\[\[' || fail "no alignment in JSON"
if "$heed" translate "$work/marian" --alignment medium --text abc 2>"$work/err"; then fail "--alignment medium was taken"; fi
grep -q "not one of hard, soft" "$work/err" || fail "the message: $(cat "$work/err")"
# A line for a line, empty ones too; a byte order mark is none of the text.
printf 'abc\n\ncab\n' | "$heed" translate "$work/marian" --max-tokens 4 >"$work/plain"
[ "$(sed -n '2p' "$work/plain")" = "" ] && [ "$(wc -l <"$work/plain")" -eq 3 ] || fail "an empty line: $(cat "$work/plain")"
printf '\357\273\277abc\r\n\r\ncab' | "$heed" translate "$work/marian" --max-tokens 4 | cmp - "$work/plain" || fail "BOM and CRLF"
# A reader that has enough is no error, and nothing is said.
set +e
for i in $(seq 1 4000); do echo abc; done | "$heed" translate "$work/marian" --max-tokens 4 2>"$work/err" | head -1 >/dev/null
[ "${PIPESTATUS[1]}" -eq 0 ] && [ ! -s "$work/err" ] || fail "| head -1 said: $(cat "$work/err")"
