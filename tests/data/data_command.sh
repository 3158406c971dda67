#!/usr/bin/env bash
# heed data: every set is written, the same for the same seed, and nonsense is refused.
set -u
heed=$1
source "$(dirname "$0")/../support/expect.bash"

expect 0 "$heed" data --list
for name in coreference dates reverse copy addition plus-two shapes; do
  grep -q "^$name " "$folder/out" || { echo "--list lacks $name"; failed=1; }
done
for name in coreference dates reverse copy addition plus-two; do
  for language in en ko; do
    for ending in tsv jsonl; do
      expect 0 "$heed" data $name --lang $language --count 50 --seed 3 -o "$folder/1.$ending"
      expect 0 "$heed" data $name --lang $language --count 50 --seed 3 -o "$folder/2.$ending"
      cmp -s "$folder/1.$ending" "$folder/2.$ending" || { echo "$name differs"; failed=1; }
      [ "$(wc -l <"$folder/1.$ending")" = 50 ] || { echo "$name: not 50 lines"; failed=1; }
    done
  done
done
expect 0 "$heed" data shapes --count 5 -o "$folder/shapes"
[ "$(ls "$folder"/shapes/*.png | wc -l)" = 5 ] || { echo "shapes: not 5 images"; failed=1; }

expect 0 "$heed" data dates --count 4
[ "$(wc -l <"$folder/out")" = 4 ] || { echo "dates: not 4 lines on stdout"; failed=1; }

expect 2 "$heed" data
expect 2 "$heed" data shapes
expect 2 "$heed" data nothing
expect 2 "$heed" data nothing -o "$folder/x.tsv"
expect 2 "$heed" data copy -o "$folder/x.doc"
expect 2 "$heed" data copy --count -1 -o "$folder/x.tsv"
expect 2 "$heed" data copy --lang fr -o "$folder/x.tsv"
expect 1 "$heed" data copy -o "$folder/none/x.tsv"
exit $failed
