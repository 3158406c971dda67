# A checkpoint of N ranks goes on with M, with the optimizer shared out or not.
source "$(dirname "$0")/common.bash"
options=("${lm[@]}" --steps 20 --checkpoint-every 5 --keep 9)
ranks 2 "$heed" "${options[@]}" --out "$work/whole" --shard-optimizer >/dev/null
broken() { # a run that got to step 10
  cp -r "$work/whole" "$work/$1"
  rm -r "$work/$1"/model "$work/$1"/checkpoints/step-000015 "$work/$1"/checkpoints/step-000020
}
broken two
ranks 2 "$heed" "${options[@]}" --out "$work/two" --resume >/dev/null
same "$work/whole" "$work/two" # exactly as if nothing had happened
broken four
ranks 4 "$heed" "${options[@]}" --out "$work/four" --resume --shard-optimizer >/dev/null
close "$work/whole" "$work/four" 1e-5
broken one
ranks 1 "$heed" "${options[@]}" --out "$work/one" --resume >/dev/null
close "$work/whole" "$work/one" 1e-5
broken other
if ranks 2 "$heed" "${options[@]}" --lr 0.5 --out "$work/other" --resume >/dev/null 2>"$work/said"; then
  fail "other options were taken"
fi
grep -q 'started with other options' "$work/said" || fail "no word of other options: $(cat "$work/said")"
