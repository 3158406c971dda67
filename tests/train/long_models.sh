#!/usr/bin/env bash
# Models for long sequences and Swin as a user trains them: from scratch, fine-tuned, and inspected.
set -euo pipefail
heed=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_CACHE_HOME=$work/cache
fail() { echo "FAILED: $*"; exit 1; }

words=(a the man woman dog cat runs sits sees old young red house street "and" two)
for line in $(seq 1 60); do
  text=
  for word in 1 2 3 4 5 6 7; do text+="${words[$(((line * 7 + word * word * 3) % 16))]} "; done
  echo "$text." >>lines.txt
  printf '%s\t%s\n' "$text" "$((line % 2))" >>rows.txt
  printf '%s\t%s\n' "$text" "${text// / x}" >>pairs.txt
done
{ printf 'text\tlabel\n'; cat rows.txt; } >classes.tsv
{ printf 'source\ttarget\n'; cat pairs.txt; } >pairs.tsv
for number in 0 1 2 3 4 5 6 7; do  # 8 x 8 pixels, bright on the left or on the right
  mkdir -p "images/$((number % 2))"
  {
    printf 'P2\n8 8\n255\n'
    for row in 1 2 3 4 5 6 7 8; do
      if [ $((number % 2)) -eq 0 ]; then echo "250 250 250 250 $number $row 0 0"; else echo "0 0 $number $row 250 250 250 250"; fi
    done
  } >"images/$((number % 2))/$number.pgm"
done
sizes=(--layers 2 --heads 2 --width 16 --ff 32 --steps 3 --batch 4 --quiet --threads 1)

# Trains `arch` for `task`, goes on from the result, and looks at it.
try() {  # arch task data inspected…
  local arch=$1 task=$2 data=$3
  shift 3
  "$heed" train --task "$task" --arch "$arch" --data "$data" --out "$arch-$task" "${sizes[@]}" --context 48 \
    || fail "$arch from scratch for $task"
  "$heed" train --task "$task" --from "$arch-$task/model" --data "$data" --out "$arch-$task-2" --steps 2 --batch 4 --quiet \
    --threads 1 || fail "$arch fine-tuned for $task"
  grep -q "\"model_type\": \"$arch\"" "$arch-$task-2/model/config.json" || fail "$arch became another model"
  if [ "$arch" = fnet ]; then
    ! "$heed" inspect "$arch-$task-2" "$@" --quiet 2>told || fail "FNet has no attention to show"
    grep -q "fnet has no attention weights" told || fail "FNet: $(cat told)"
  else
    "$heed" inspect "$arch-$task-2" "$@" --format svg -o "$arch.svg" --quiet || fail "$arch inspected"
    grep -q '<svg' "$arch.svg" || fail "$arch drew nothing"
  fi
}

for arch in longformer big_bird fnet nystromformer heed-performer; do
  for task in mlm classify; do
    data=lines.txt
    [ "$task" = mlm ] || data=classes.tsv
    try "$arch" "$task" "$data" --text "the old man sees a dog"
  done
done
try heed-performer lm lines.txt --text "the old man sees"
try led translate pairs.tsv --text "the old man" --target "the xold"
try swin image-classify images --image images/0/0.pgm
try deit image-classify images --image images/0/0.pgm
echo ok
