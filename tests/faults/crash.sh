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
cp "$shim" "$folder/shim.so" && shim=$folder/shim.so # LD_PRELOAD takes no path with spaces
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
operations=$(cat "$folder/count") || exit 1
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
operations=$(cat "$folder/count") || exit 1
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
operations=$(cat "$folder/count") || exit 1
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

# SIGKILL at random moments of training, indexing, converting and serving in turn, each going on after it. Only kills that
# meet the process alive are counted.
fresh
mkdir "$folder/work/converted"
RANDOM=7
# milliseconds COMMAND…: how long it takes undisturbed.
milliseconds() {
  local begin=${EPOCHREALTIME/[.,]/}
  "$@" >/dev/null 2>&1
  echo $(((${EPOCHREALTIME/[.,]/} - begin) / 1000 + 1))
}
# killed MILLISECONDS COMMAND…: starts it and kills it at a random moment of this time; $status is 137 if it was alive.
killed() {
  local moment=$((RANDOM * $1 * 1000 / 32768)) pid
  shift
  "$@" >"$folder/out" 2>"$folder/err" &
  pid=$!
  sleep "$((moment / 1000000)).$(printf %06d $((moment % 1000000)))"
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  status=$?
}
checkpoints() { ls "$folder/work/run/checkpoints" 2>/dev/null | grep -c '^step-'; }
kill_training() { # never fewer than one checkpoint once there was one; what is left can be gone on with
  local resume=() before
  before=$(checkpoints)
  [ "$before" -eq 0 ] || resume=(--resume)
  [ -e "$folder/work/run/metrics.jsonl" ] && resume=(--resume)
  killed "$training_time" "${train[@]}" "${resume[@]}" --out "$folder/work/run"
  [ "$before" -eq 0 ] || [ "$(checkpoints)" -ge 1 ] || return 1
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
  killed "$index_time" "${index[@]}"
  [ $status -ne 0 ] || finish_index
}
kill_convert() {
  echo old >"$folder/work/converted/model.gguf"
  killed "$convert_time" "${convert_again[@]}"
  [ "$(head -c 4 "$folder/work/converted/model.gguf" 2>/dev/null)" = "old" ] ||
    [ "$(sha256sum <"$folder/work/converted/model.gguf")" = "$converted" ]
}
# ask PORT: the text of one answer.
ask() {
  local body='{"model":"lm","prompt":"the ","max_tokens":8,"temperature":0}'
  {
    printf 'POST /v1/completions HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
      ${#body} "$body" >&3
    grep -aoE '"text":"[^"]*"' <&3
  } 3<>"/dev/tcp/127.0.0.1/$1"
} 2>/dev/null
# ask_again [TIMES]: answers of the server that writes to $folder/out, until it is gone or so often.
ask_again() {
  local port="" waits=0 n
  until [ -n "$port" ]; do
    port=$(sed -nE 's|^listening on http://.*:([0-9]+)$|\1|p' "$folder/out" "$folder/err" 2>/dev/null)
    waits=$((waits + 1))
    [ -n "$port" ] || { [ $waits -lt 400 ] && sleep 0.01; } || return 1
  done
  for ((n = 0; n < ${1:-1000}; ++n)); do ask "$port" || return 1; done
}
# What it serves stays as it is, the next one starts, and whatever was answered is the same to the byte.
kill_serve() {
  local client
  rm -f "$folder/out" "$folder/err"
  ask_again >"$folder/answers" &
  client=$!
  killed "$serve_time" "${serve[@]}"
  kill $client 2>/dev/null
  wait $client 2>/dev/null
  [ "$(cd "$folder/reference" && find . -type f -exec sha256sum {} + | sort)" = "$served" ] || return 1
  ! grep -q '^heed: ' "$folder/err" && ! grep -qvxF "$answer" "$folder/answers"
}
convert_again=("$heed" convert "$folder/reference" "$folder/work/converted/model.gguf" --quiet)
convert_time=$(milliseconds "${convert_again[@]}")
converted=$(sha256sum <"$folder/work/converted/model.gguf")
training_time=$(milliseconds "${train[@]}" --out "$folder/work/run")
index_time=$(milliseconds "${index[@]}")
rm -rf "$folder/work/run" "$folder/work/x.heed-index"*
serve=("$heed" serve lm="$folder/reference" --port 0 --page off --threads 1 --quiet)
served=$(cd "$folder/reference" && find . -type f -exec sha256sum {} + | sort)
"${serve[@]}" >"$folder/out" 2>"$folder/err" &
server=$!
serve_time=$(milliseconds ask_again 3)
answer=$(ask_again 1)
kill -9 $server
wait $server 2>/dev/null
[ -n "$answer" ] || { echo "the server gives no answer: $(cat "$folder/err")"; exit 1; }

works=(kill_training kill_index kill_convert kill_serve)
declare -A met=()
made=0
for ((attempt = 0; made < kills && attempt < 4 * kills; ++attempt)); do
  tried=$((tried + 1))
  work=${works[$((attempt % 4))]}
  if $work && { [ $status -eq 0 ] || [ $status -eq 137 ]; }; then right=$((right + 1)); else wrong "kill $made, $work, $status: $(tail -3 "$folder/err")"; fi
  [ $status -ne 137 ] || { made=$((made + 1)); met[$work]=$((${met[$work]:-0} + 1)); }
done
finish_training || { wrong "training after the kills: $(cat "$folder/err")"; right=$((right - 1)); }
finish_index || { wrong "indexing after the kills: $(cat "$folder/err")"; right=$((right - 1)); }
echo "killed $made times: training ${met[kill_training]:-0}, indexing ${met[kill_index]:-0}, converting ${met[kill_convert]:-0}, serving ${met[kill_serve]:-0}"
echo "tried $tried, right $right"
[ "$tried" -eq "$right" ]
