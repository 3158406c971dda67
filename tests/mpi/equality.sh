# A run on 1, 2 and 4 ranks is the same run; sharing out the optimizer changes nothing.
source "$(dirname "$0")/common.bash"
run() { # NAME RANKS OPTIONS…
  local out=$work/$1 n=$2
  shift 2
  ranks "$n" "$heed" "${lm[@]}" --steps 50 --out "$out" "$@" >/dev/null
}
run one 1
run two 2
run four 4
run two_again 2
run two_sharded 2 --shard-optimizer
run four_sharded 4 --shard-optimizer
close "$work/one" "$work/two" 1e-5
close "$work/one" "$work/four" 1e-5
same "$work/two" "$work/two_again"
same "$work/two" "$work/two_sharded"
same "$work/four" "$work/four_sharded"

# Averaged weights, and activations in two bytes with a scaled loss.
run ema_one 1 --ema 0.9
run ema_two 2 --ema 0.9
run ema_again 2 --ema 0.9 --shard-optimizer
close "$work/ema_one" "$work/ema_two" 1e-5
same "$work/ema_two" "$work/ema_again"
cmp -s "$work/ema_two/model/model.safetensors" "$work/two/model/model.safetensors" && fail "--ema changes nothing"
run f16_one 1 --precision f16
run f16_two 2 --precision f16
run f16_again 2 --precision f16 --shard-optimizer
close "$work/f16_one" "$work/f16_two" 5e-5
same "$work/f16_two" "$work/f16_again"
scale() { grep -h '"loss_scale"\|"good_steps"' "$1/checkpoints/step-000050/state.json"; }
scale "$work/f16_one" | grep -q '[1-9][0-9][0-9]' || fail "f16 without a scaled loss"
[ "$(scale "$work/f16_one")" = "$(scale "$work/f16_two")" ] || fail "ranks scale the loss differently"

# Sequences of any length, in pieces, with blocks computed again: other numbers of tokens on each
# rank, other shapes, the same mean and the same dropout.
pairs=(train --task translate --data "$work/pairs.tsv" --tokenizer char "${small[@]}" --batch 12 --steps 12)
ranks 1 "$heed" "${pairs[@]}" --out "$work/pairs_one" >/dev/null
ranks 2 "$heed" "${pairs[@]}" --out "$work/pairs_two" --micro-batch 4 --recompute >/dev/null
close "$work/pairs_one" "$work/pairs_two" 1e-5
