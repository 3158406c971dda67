#!/usr/bin/env bash
# A fault at every write, fsync and rename of a training run, of converting it and of indexing: no error may be lost,
# no finished file damaged, and a run that goes on must end with the same weights to the bit. Then SIGKILL
# at random moments of training, indexing, converting and serving. HEED_CRASH_STRIDE=1 tries every operation, the default every fifth; HEED_KILLS says
# how many kills. Ends with "tried N, right N".
set -u
heed=$1
shim=$(dirname "$heed")/lib/libheed_fault_shim.so
[ -f "$shim" ] || { echo "skipped: $shim is not built"; exit 77; }
stride=${HEED_CRASH_STRIDE:-5}
kills=${HEED_KILLS:-10}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
tried=0
right=0
wrong() { echo "wrong: $*" >&2; }

for i in $(seq 1 60); do echo "the $i cats sat on the mat"; done >"$folder/text.txt"
for i in $(seq 1 40); do printf 'cats %s\tthe %s cats sat on the mat\n' $i $i; done >"$folder/pairs.tsv"
train=("$heed" train --task lm --data "$folder/text.txt" --tokenizer char --layers 1 --heads 1 --width 8 --context 16
  --batch 2 --steps 6 --checkpoint-every 2 --keep 1 --warmup 1 --quiet --threads 1 --probes 0)
"${train[@]}" --out "$folder/reference" >/dev/null || { echo "the reference run failed"; exit 1; }
wanted=$(sha256sum <"$folder/reference/model/model.safetensors")

# with_fault FAULT COMMAND…: its exit code.
with_fault() {
  local fault=$1
  shift
  HEED_FAULT=$fault HEED_FAULT_FOLDER=$folder/work HEED_FAULT_COUNT=$folder/count LD_PRELOAD=$shim \
    "$@" >"$folder/out" 2>"$folder/err"
}

# Goes on with the run in work/run, or begins where there is none, and compares.
finish_training() {
  local resume=()
  [ -e "$folder/work/run/metrics.jsonl" ] && resume=(--resume)
  [ -n "$(ls "$folder/work/run/checkpoints" 2>/dev/null | grep '^step-')" ] && resume=(--resume)
  "${train[@]}" "${resume[@]}" --out "$folder/work/run" >/dev/null 2>"$folder/err" || return 1
  [ "$(sha256sum <"$folder/work/run/model/model.safetensors")" = "$wanted" ]
}

fresh() { rm -rf "$folder/work"; mkdir "$folder/work"; }

fresh
with_fault none:0 "${train[@]}" --out "$folder/work/run" || { cat "$folder/err"; exit 1; }
operations=$(cat "$folder/count")
for kind in enospc eio eintr short kill power; do
  for ((n = 1; n <= operations; n += stride)); do
    fresh
    tried=$((tried + 1))
    code=0
    with_fault $kind:$n "${train[@]}" --out "$folder/work/run" || code=$?
    case $kind in
      eintr | short) # must not even be noticed, but for a rename that was interrupted
        [ $code -eq 0 ] || [ $kind = eintr ] || { wrong "$kind at $n: exit code $code: $(cat "$folder/err")"; continue; } ;;
      enospc | eio)
        if [ $code -eq 0 ] && ! grep -q warning "$folder/err"; then wrong "$kind at $n went unnoticed"; continue; fi
        [ $code -lt 126 ] || { wrong "$kind at $n: exit code $code: $(cat "$folder/err")"; continue; } ;;
    esac
    finish_training || { wrong "$kind at $n: $(cat "$folder/err")"; continue; }
    right=$((right + 1))
  done
done

# Converting: the old file stays whole, or the new one is there whole.
fresh
convert=("$heed" convert "$folder/reference" "$folder/work/model.gguf" --quiet)
with_fault none:0 "${convert[@]}" || { cat "$folder/err"; exit 1; }
whole=$(sha256sum <"$folder/work/model.gguf")
operations=$(cat "$folder/count")
for kind in enospc eio eintr short kill power; do
  for ((n = 1; n <= operations; n += stride)); do
    tried=$((tried + 1))
    rm -f "$folder"/work/*
    echo old >"$folder/work/model.gguf"
    with_fault $kind:$n "${convert[@]}"
    found=$(sha256sum <"$folder/work/model.gguf")
    if [ "$found" != "$whole" ] && [ "$(cat "$folder/work/model.gguf")" != old ]; then
      wrong "convert, $kind at $n: neither the old file nor the new one"
      continue
    fi
    case $kind in enospc | eio | eintr | short)
      if [ "$(ls -A "$folder/work" | wc -l)" -ne 1 ]; then wrong "convert, $kind at $n: left $(ls -A "$folder/work")"; continue; fi ;;
    esac
    right=$((right + 1))
  done
done

# Indexing: the same command goes on, and what is found is what an undisturbed index finds.
fresh
for i in $(seq 1 300); do echo "{\"text\": \"the $i cats sat on the mat $((i * i % 97))\"}"; done >"$folder/rows.jsonl"
"$heed" train --task embed --data "$folder/pairs.tsv" --tokenizer wordpiece:120 --layers 1 --heads 1 --width 16 --context 32 \
  --batch 4 --steps 1 --warmup 1 --quiet --threads 1 --out "$folder/encoder" >/dev/null 2>"$folder/err" || { cat "$folder/err"; exit 1; }
index=("$heed" index "$folder/rows.jsonl" --model "$folder/encoder" --out "$folder/work/x.heed-index" --quiet --threads 1)
found() {
  "$heed" search "$folder/work/x.heed-index" "cats 17" --mode lexical --top-k 400 --json --threads 1 &&
    "$heed" search "$folder/work/x.heed-index" "cats 17" --mode dense --top-k 50 --json --threads 1
}
with_fault none:0 "${index[@]}" || { cat "$folder/err"; exit 1; }
operations=$(cat "$folder/count")
whole=$(found | sed 's/"chunk":[0-9]*,//g' | sha256sum)
for kind in enospc eio eintr short kill power; do
  for ((n = 1; n <= operations; n += stride)); do
    tried=$((tried + 1))
    fresh
    code=0
    with_fault $kind:$n "${index[@]}" || code=$?
    case $kind in enospc | eio)
      [ $code -ne 0 ] && [ $code -lt 126 ] || { wrong "index, $kind at $n: exit code $code"; continue; } ;;
    esac
    "${index[@]}" >/dev/null 2>"$folder/err" || { wrong "index after $kind at $n: $(cat "$folder/err")"; continue; }
    [ "$(found | sed 's/"chunk":[0-9]*,//g' | sha256sum)" = "$whole" ] || { wrong "index, $kind at $n: other results"; continue; }
    right=$((right + 1))
  done
done

# SIGKILL at random moments of training, indexing, converting and serving in turn, each going on after it.
fresh
mkdir "$folder/work/converted"
RANDOM=7
# killed COMMAND…: starts it and kills it at a random moment of its first 0.4 s; $status is 0 if it was done before.
killed() {
  "$@" >"$folder/out" 2>"$folder/err" &
  local pid=$!
  sleep "0.$(printf %03d $((RANDOM % 400)))"
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  status=$?
}
kill_training() {
  local resume=()
  [ -n "$(ls "$folder/work/run/checkpoints" 2>/dev/null | grep '^step-')" ] && resume=(--resume)
  [ -e "$folder/work/run/metrics.jsonl" ] && resume=(--resume)
  killed "${train[@]}" "${resume[@]}" --out "$folder/work/run"
  [ -e "$folder/work/run/model/model.safetensors" ] || return 0
  # It was done before the kill: start over.
  [ "$(sha256sum <"$folder/work/run/model/model.safetensors")" = "$wanted" ] || finish_training || return 1
  rm -rf "$folder/work/run"
}
finish_index() {
  "${index[@]}" >/dev/null 2>"$folder/err" && [ "$(found | sed 's/"chunk":[0-9]*,//g' | sha256sum)" = "$whole" ] &&
    rm -rf "$folder/work/x.heed-index"*
}
kill_index() {
  killed "${index[@]}"
  [ $status -ne 0 ] || finish_index
}
kill_convert() {
  echo old >"$folder/work/converted/model.gguf"
  killed "$heed" convert "$folder/reference" "$folder/work/converted/model.gguf" --quiet
  [ "$(cat "$folder/work/converted/model.gguf" 2>/dev/null | head -c 4)" = "old" ] ||
    [ "$(sha256sum <"$folder/work/converted/model.gguf")" = "$converted" ]
}
kill_serve() { # what it serves stays as it is, and the next one starts
  killed "$heed" serve lm="$folder/reference" --port 0 --page off --threads 1 --quiet
  [ "$(cd "$folder/reference" && find . -type f -exec sha256sum {} + | sort)" = "$served" ] || return 1
  ! grep -q '^heed: ' "$folder/err"
}
"$heed" convert "$folder/reference" "$folder/reference.gguf" --quiet || exit 1
converted=$(sha256sum <"$folder/reference.gguf")
served=$(cd "$folder/reference" && find . -type f -exec sha256sum {} + | sort)
works=(kill_training kill_index kill_convert kill_serve)
for ((n = 1; n <= kills; ++n)); do
  tried=$((tried + 1))
  work=${works[$((n % 4))]}
  if $work && { [ $status -eq 0 ] || [ $status -eq 137 ]; }; then right=$((right + 1)); else wrong "kill $n, $work: $(tail -3 "$folder/err")"; fi
done
finish_training || { wrong "training after the kills: $(cat "$folder/err")"; right=$((right - 1)); }
finish_index || { wrong "indexing after the kills: $(cat "$folder/err")"; right=$((right - 1)); }
echo "tried $tried, right $right"
[ "$tried" -eq "$right" ]
