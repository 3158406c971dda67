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

# Sequences of any length, in pieces, with blocks computed again: other numbers of tokens on each
# rank, other shapes, the same mean and the same dropout.
pairs=(train --task translate --data "$work/pairs.tsv" --tokenizer char "${small[@]}" --batch 12 --steps 12)
ranks 1 "$heed" "${pairs[@]}" --out "$work/pairs_one" >/dev/null
ranks 2 "$heed" "${pairs[@]}" --out "$work/pairs_two" --micro-batch 4 --recompute >/dev/null
close "$work/pairs_one" "$work/pairs_two" 1e-5
