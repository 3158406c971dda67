#!/usr/bin/env bash
# Allocations that fail, one at a time, in what reads files and in the server: a clear error or none at
# all, never a crash. HEED_ALLOCATION_STRIDE=1 tries every allocation. Ends with "tried N, right N".
set -u
heed=$1
source_folder=$2
shim=$(dirname "$heed")/lib/libheed_allocation_shim.so
[ -f "$shim" ] || { echo "skipped: $shim is not built"; exit 77; }
nm -D "$heed" | grep -q __asan && { echo "skipped: a sanitizer has its own allocations"; exit 77; }
stride=${HEED_ALLOCATION_STRIDE:-0}
folder=$(mktemp -d)
cp "$shim" "$folder/shim.so" && shim=$folder/shim.so # LD_PRELOAD takes no path with spaces
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
tried=0
right=0
wrong() { echo "wrong: $*" >&2; }

cp -r "$source_folder/tests/golden/models/gpt2_lm" "$folder/model"
# As many tokens as the model has rows: bytes that stand for themselves.
vocabulary=$(for i in $(seq 0 36); do printf '%s"%b":%d' "$([ "$i" -eq 0 ] || echo ,)" "\\x$(printf %x $((i + 65 + i / 26 * 6)))" "$i"; done)
printf '{"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{%s},"merges":[]}}' \
  "$vocabulary" >"$folder/model/tokenizer.json"
cp "$source_folder/fuzz/seeds/gguf/small" "$folder/small.gguf"
cp "$source_folder/fuzz/seeds/image/rgb.png" "$folder/image.png"
printf 'AB AB\n' >"$folder/text"

# limited N COMMAND…: with the N-th allocation failing; its exit code.
limited() {
  local n=$1
  shift
  HEED_ALLOCATION=$n HEED_ALLOCATION_FOLDER=$folder HEED_ALLOCATION_COUNT=$folder/count LD_PRELOAD=$shim \
    "$@" <"$folder/text" >"$folder/out" 2>"$folder/err"
}

# try COMMAND…: about 40 of its allocations in turn, or all of them with a stride of 1.
try() {
  limited 0 "$@"
  local plain=$? count n code step
  count=$(cat "$folder/count") || exit 1
  step=$stride
  [ "$step" -gt 0 ] || step=$((count / 40 + 1))
  for ((n = 1; n <= count; n += step)); do
    tried=$((tried + 1))
    limited "$n" "$@"
    code=$?
    if [ $code -ge 126 ]; then
      wrong "$2, allocation $n of $count: exit code $code: $(head -c 300 "$folder/err")"
    elif [ $code -ne 0 ] && [ $code -ne "$plain" ] && ! grep -q '^heed: ' "$folder/err"; then
      wrong "$2, allocation $n of $count: exit code $code without an error"
    else
      right=$((right + 1))
    fi
  done
}

try "$heed" info "$folder/model"
try "$heed" info "$folder/small.gguf"
try "$heed" tokenize "$folder/model/tokenizer.json"
try "$heed" forward "$folder/model" --input "$folder/model/inputs.safetensors" --output "$folder/result"
try "$heed" generate "$folder/model" --prompt AB --max-tokens 4

# The server: the one request during which an allocation fails may be refused; all others are answered.
start() {
  : >"$folder/err" # the shell in the background may open it later than it is read
  HEED_ALLOCATION=$1 HEED_ALLOCATION_FOLDER=$folder HEED_ALLOCATION_COUNT=$folder/count LD_PRELOAD=$shim \
    "$heed" serve lm="$folder/model" --port 0 --page off >"$folder/out" 2>"$folder/err" &
  server=$!
  for _ in $(seq 400); do
    port=$(sed -nE 's/^listening on http:\/\/127\.0\.0\.1:([0-9]+)$/\1/p' "$folder/err")
    [ -z "$port" ] || return 0
    kill -0 "$server" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}
ask() { # BODY: the status
  exec 7<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' \
    "${#1}" "$1" >&7
  timeout 10 cat <&7 | head -1 | cut -d' ' -f2
  exec 7>&-
}
request='{"model":"lm","prompt":"AB","max_tokens":4}'
start 0 || { cat "$folder/err"; exit 1; }
kill -TERM "$server"; wait "$server"; ready=$(cat "$folder/count")
start 0 || { cat "$folder/err"; exit 1; }
ask "$request" >/dev/null
kill -TERM "$server"; wait "$server"; all=$(cat "$folder/count")
server=
step=$stride
[ "$step" -gt 0 ] || step=$(((all - ready) / 12 + 1))
for ((n = ready - ready / 10; n <= all; n += step)); do
  tried=$((tried + 1))
  if ! start "$n"; then # it failed while it was starting: an error and an exit code
    wait "$server"
    code=$?
    server=
    if [ $code -lt 126 ] && grep -q '^heed: ' "$folder/err"; then right=$((right + 1)); else wrong "serve, $n: $code $(head -c 300 "$folder/err")"; fi
    continue
  fi
  first=$(ask "$request" 2>/dev/null)
  second=$(ask "$request" 2>/dev/null)
  # Threads allocate at their own pace: it may be the second request that was hit.
  [ "$first" != 200 ] || [ "$second" = 200 ] || first="$first, $second" second=$(ask "$request" 2>/dev/null)
  kill -TERM "$server" 2>/dev/null
  wait "$server"
  code=$?
  server=
  if [ "$second" = 200 ] && [ $code -lt 126 ]; then right=$((right + 1)); else
    wrong "serve, allocation $n: first ${first:-nothing}, then ${second:-nothing}, exit code $code: $(tail -c 300 "$folder/err")"
  fi
done
echo "tried $tried, right $right"
[ "$tried" -eq "$right" ]
