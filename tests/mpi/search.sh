#!/usr/bin/env bash
# An index that ranks share out is searched with the results of one process, to the byte.
source "$(dirname "$0")/common.bash"
awk 'BEGIN { s = 5; for (i = 0; i < 700; ++i) { s = (s * 1103515245 + 12345) % 2147483648
  printf "{\"text\": \"passage %d about the number %d and the city %d\"}\n", i, s % 97, s % 31 } }' >"$work/rows.jsonl"
"$heed" train --task embed --data "$work/pairs.tsv" --tokenizer wordpiece:200 --layers 1 --heads 2 --width 32 \
  --context 64 --steps 1 --batch 4 --quiet --out "$work/encoder" >/dev/null 2>&1 || fail "no encoder"
for vectors in f32 int8; do
  "$heed" index "$work/rows.jsonl" --model "$work/encoder" --vectors $vectors --out "$work/$vectors.heed-index" --quiet ||
    fail "heed index"
  for mode in dense lexical hybrid; do
    for n in 1 2 3; do
      ranks $n "$heed" search "$work/$vectors.heed-index" "the city 17" --mode $mode --top-k 20 --json >"$work/$n.json" ||
        fail "heed search with $n ranks"
    done
    [ "$(grep -c results "$work/2.json")" -eq 1 ] || fail "more than one rank printed"
    cmp "$work/1.json" "$work/2.json" && cmp "$work/1.json" "$work/3.json" || fail "$vectors $mode: ranks change the results"
  done
done
echo passed
