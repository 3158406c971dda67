# What goes wrong on one rank ends or steers all of them, and says so.
source "$(dirname "$0")/common.bash"

# refused CODE WORDS COMMAND…: mpirun must end with that code within a minute and say why.
refused() {
  local code=0 wanted=$1 words=$2
  shift 2
  timeout -k 5 60 "$@" >"$work/out" 2>"$work/said" || code=$?
  # Open MPI's own launcher was once seen to wait for itself after all ranks had ended and said why.
  if [ "$code" = 137 ] && grep -q "$words" "$work/said"; then
    code=0
    timeout -k 5 60 "$@" >"$work/out" 2>"$work/said" || code=$?
  fi
  [ "$code" = "$wanted" ] || fail "exit code $code, not $wanted: $(cat "$work/said")"
  grep -q "$words" "$work/said" || fail "nothing about '$words': $(cat "$work/said")"
}

# Each rank runs a script with its number, which gives it its part: mpirun's own `A : B` crashes in
# Open MPI 5.0.7.
by_rank() { # COMMANDS: a shell's, with $rank and what is exported
  printf '#!/usr/bin/env bash\nset -e\nrank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}\n%s\n' "$1" >"$work/by_rank"
  chmod +x "$work/by_rank"
}

# Other options, other data, data that one rank does not have.
by_rank 'if [ "$rank" = 1 ]; then set -- "$@" --lr 0.5; fi; exec "$@"'
refused 2 "rank 1 has another option than rank 0: 'lr = 0.5" mpirun --oversubscribe -n 2 \
  "$work/by_rank" "$heed" "${lm[@]}" --steps 2 --out "$work/a"
mkdir "$work/here" "$work/there"
head -c 8000 "$work/text.txt" >"$work/here/data.txt"
near=(train --task lm --data data.txt --tokenizer char "${small[@]}" --batch 16 --steps 2 --out "$work/b")
by_rank "if [ \"\$rank\" = 1 ]; then cd '$work/there'; else cd '$work/here'; fi; exec \"\$@\""
refused 3 "(rank 1; all ranks end)" mpirun --oversubscribe -n 2 "$work/by_rank" "$heed" "${near[@]}"
head -c 9000 "$work/text.txt" >"$work/there/data.txt"
refused 2 "rank 1 has another data set" mpirun --oversubscribe -n 2 "$work/by_rank" "$heed" "${near[@]}" --out "$work/c"
refused 2 "leave nothing for some of 2 ranks" mpirun --oversubscribe -n 2 "$heed" "${lm[@]}" --batch 1 --out "$work/d"

# More threads than cores: said once, and the run goes on.
mpirun --oversubscribe -n 2 "$heed" train --task lm --data "$work/text.txt" --tokenizer char --layers 1 --heads 1 \
  --width 8 --context 16 --steps 1 --threads "$(nproc)" --out "$work/crowd" >/dev/null 2>"$work/said"
[ "$(grep -c 'ranks with .* threads each share' "$work/said")" = 1 ] || fail "no warning: $(cat "$work/said")"

# Numbers that overflow lie in one rank's rows: every rank skips that step, and only that one.
header='{"features":{"dtype":"F32","shape":[64,2,4],"data_offsets":[0,2048]}}'
{
  printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
  head -c 1280 /dev/zero
  printf '\xff\xff\x7f\x7f\xff\xff\x7f\x7f\xff\xff\x7f\x7f\xff\xff\x7f\x7f' # example 40: the largest f32
  head -c 752 /dev/zero
} >"$work/regions.safetensors"
awk 'BEGIN { for (i = 0; i < 64; ++i) print i % 2 ? "a cat" : "a dog runs" }' >"$work/regions.txt"
numbers=(train --task caption --data "$work/regions.safetensors" --tokenizer char "${small[@]}" --validation-share 0 --batch 16 --steps 8)
ranks 1 "$heed" "${numbers[@]}" --out "$work/n1" >/dev/null
ranks 2 "$heed" "${numbers[@]}" --out "$work/n2" >/dev/null
skipped() { grep '"skipped":true' "$1/metrics.jsonl" | sed -E 's/.*"step":([0-9]+).*/\1/' | tr '\n' ' '; }
[ -n "$(skipped "$work/n1")" ] || fail "no step was skipped"
[ "$(skipped "$work/n1")" = "$(skipped "$work/n2")" ] || fail "skipped $(skipped "$work/n1") and $(skipped "$work/n2")"

# A write that fails: the checkpoint before it stays the last one.
ranks 2 "$heed" "${lm[@]}" --steps 4 --checkpoint-every 2 --out "$work/full" >/dev/null
rm -r "$work/full/checkpoints/step-000004"
code=0
(trap '' XFSZ; ulimit -f 100; timeout -k 5 30 mpirun --oversubscribe -n 2 "$heed" "${lm[@]}" --steps 4 \
  --checkpoint-every 2 --out "$work/full" --resume) >/dev/null 2>"$work/said" || code=$?
[ "$code" != 0 ] || fail "a full disk went unnoticed"
[ "$(ls "$work/full/checkpoints" | grep -c step)" = 1 ] || fail "checkpoints: $(ls "$work/full/checkpoints")"

# A rank is killed: all end, and the run goes on from its last checkpoint.
mpirun --oversubscribe -n 2 "$heed" "${lm[@]}" --steps 100000 --checkpoint-every 20 --keep 2 --out "$work/killed" >/dev/null 2>"$work/said" &
launcher=$!
for _ in $(seq 300); do
  [ -e "$work/killed/checkpoints/step-000040" ] && break
  sleep 0.1
done
victim=$(pgrep -P "$launcher" | tail -1)
kill -9 "$victim"
code=0
wait "$launcher" || code=$?
[ "$code" != 0 ] || fail "the launcher ended as if all were well"
pgrep -f "out $work/killed" >/dev/null && fail "a rank lives on"
mpirun --oversubscribe -n 2 "$heed" "${lm[@]}" --steps 100000 --checkpoint-every 20 --keep 2 --out "$work/killed" --resume >/dev/null 2>&1 &
launcher=$!
last=$(ls "$work/killed/checkpoints" | grep step | tail -1)
for _ in $(seq 300); do
  [ "$(ls "$work/killed/checkpoints" 2>/dev/null | grep step | tail -1)" \> "$last" ] && break
  sleep 0.1
done
kill -TERM "$launcher"
wait "$launcher" || true
[ "$(ls "$work/killed/checkpoints" | grep step | tail -1)" \> "$last" ] || fail "the run did not go on"
