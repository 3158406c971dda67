#!/usr/bin/env bash
# The server as a process: readiness, signals, limits, refusals (FAULTS 63, 86, 88).
set -euo pipefail
heed=$1
source_folder=$2
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "serve: $*" >&2; [ ! -f "$work/err" ] || cat "$work/err" >&2; exit 1; }

printf "%s\n" "$(for _ in {1..200}; do echo "the quick brown fox jumps over the lazy dog . one two three four five ."; done)" >"$work/text"
"$heed" train --task lm --data "$work/text" --out "$work/run" --tokenizer char --layers 1 --heads 2 \
  --width 32 --ff 64 --context 512 --batch 2 --steps 3 --quiet >"$work/train.log" 2>&1 ||
  { cat "$work/train.log" >&2; fail "training failed"; }

# start OPTION…: sets server and port when it is ready. command: serve, or explore.
command=serve
start() {
  : >"$work/err"
  : >"$work/err" # the shell in the background may open it later than it is read
  "$heed" $command lm="$work/run" --port 0 "$@" >"$work/out" 2>"$work/err" &
  server=$!
  for _ in $(seq 600); do
    port=$(sed -nE 's/^listening on http:\/\/127\.0\.0\.1:([0-9]+)$/\1/p' "$work/err")
    [ -z "$port" ] || return 0
    kill -0 "$server" 2>/dev/null || fail "the server ended before it was ready"
    sleep 0.05
  done
  fail "the server was not ready in time"
}
# ask METHOD PATH [BODY]: the whole answer.
ask() {
  exec 7<>"/dev/tcp/127.0.0.1/$port"
  printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' \
    "$1" "$2" "${#3}" "$3" >&7
  cat <&7
  exec 7>&-
}
# stop SIGNAL: sets code to the server's exit code.
stop() {
  kill "-$1" "$server"
  code=0
  wait "$server" || code=$?
  server=
}

start
ask GET /health "" | grep -q '200 OK' || fail "/health does not answer 200"
ask POST /v1/completions '{"prompt":"the fox","max_tokens":5}' | grep -q '"text_completion"' || fail "no completion"
stop TERM
[ "$code" = 0 ] || fail "SIGTERM without requests: exit code $code"

# A filter of system calls on every thread: no outbound connection.
start
filters() { sed -nE 's/^Seccomp_filters:[[:space:]]*//p' "$1"; }
if [ -n "${HEED_EMULATED:-}" ]; then # tests/fresh/arm.bash
  grep -q 'takes no seccomp filters' "$work/err" || fail "qemu takes no filter, which is not said"
elif [ -n "$(filters /proc/self/status)" ]; then
  for thread in /proc/"$server"/task/*; do
    [ "$(filters "$thread/status")" -gt "$(filters /proc/self/status)" ] || fail "a thread without a seccomp filter: $(cat "$thread/comm")"
  done
fi
ask GET /health "" | grep -q '200 OK' || fail "/health under the filter"
stop TERM

# 63: SIGTERM under load drains.
start
for i in $(seq 8); do
  ask POST /v1/completions '{"prompt":"the fox","max_tokens":400,"stream":true}' >"$work/answer.$i" &
done
sleep 0.3
stop TERM
wait
[ "$code" = 0 ] || fail "SIGTERM under load: exit code $code"
for i in $(seq 8); do
  if [ -s "$work/answer.$i" ]; then
    grep -q '\[DONE\]' "$work/answer.$i" || fail "an answer was cut by SIGTERM: $(tail -c 200 "$work/answer.$i")"
  fi
done

# What is under way when --drain is over is dropped, and is no fault of the server.
start --drain 0 --slots 1
ask POST /v1/completions '{"prompt":"the fox","max_tokens":500,"n":100,"stream":true,"ignore_eos":true}' >"$work/answer.long" &
until grep -q '^data: ' "$work/answer.long"; do sleep 0.05; done
stop TERM
wait
[ "$code" = 0 ] || fail "SIGTERM with a short --drain: exit code $code"
! grep -q '\[DONE\]' "$work/answer.long" || fail "the long answer was not dropped"

# A worker that cannot be stopped (a schema whose alternatives are compared in pairs, for a second or two) delays it no
# further, and a second signal ends the server at once.
constants=$(printf '{"const":"k%d"},' {1..2500})
busy="{\"prompt\":\"the\",\"max_tokens\":4,\"json_schema\":{\"oneOf\":[${constants%,}]}}"
for signals in "TERM" "TERM TERM"; do
  start --drain $([ "$signals" = TERM ] && echo 0.1 || echo 600)
  ask POST /v1/completions "$busy" >"$work/answer.busy" 2>&1 &
  until ask GET /metrics "" | grep -q '^heed_requests_in_flight 1'; do
    [ ! -s "$work/answer.busy" ] || break
    sleep 0.05
  done
  for signal in $signals; do
    kill "-$signal" "$server" 2>/dev/null || true
    sleep 0.2 # two of them at once are one
  done
  code=0
  wait "$server" || code=$?
  server=
  wait
  [ "$code" = 0 ] || [ "$signals $code" = "TERM TERM 1" ] || fail "$signals with a busy worker: exit code $code"
done

# SIGHUP reloads; the server goes on. The access log says what happened.
start --access-log "$work/access.jsonl"
kill -HUP "$server"
ask POST /v1/completions '{"prompt":"the fox","max_tokens":5}' | grep -q '200 OK' || fail "no answer after SIGHUP"
stop INT
[ "$code" = 0 ] || fail "SIGINT: exit code $code"
grep -q '"path":"/v1/completions","status":200' "$work/access.jsonl" || fail "access log: $(cat "$work/access.jsonl")"
grep -q 'loaded lm' "$work/err" || fail "SIGHUP did not load the model again"

# The page is opened by the desktop's xdg-open, for which a stand-in writes down what it is given.
mkdir "$work/desktop"
printf '#!/bin/sh\necho "$*" >>"%s/opened"\n' "$work" >"$work/desktop/xdg-open"
chmod +x "$work/desktop/xdg-open"
for command in "serve --open" explore "explore --no-browser" serve; do
  rm -f "$work/opened"
  DISPLAY=:9 PATH="$work/desktop:$PATH" start
  ask GET / "" | grep -q '200 OK' || fail "heed $command: no page"
  case $command in
    "serve --open" | explore)
      for _ in $(seq 200); do [ ! -s "$work/opened" ] || break; sleep 0.05; done
      [ "$(cat "$work/opened" 2>/dev/null)" = "http://127.0.0.1:$port" ] || fail "heed $command opens '$(cat "$work/opened" 2>/dev/null)'"
      ;;
  esac
  stop TERM
  [[ $command == *open || $command == explore ]] || [ ! -e "$work/opened" ] || fail "heed $command opens a browser"
done

# refuse CODE TEXT OPTION…
refuse() {
  local wanted=$1 text=$2 code=0
  shift 2
  "$heed" serve "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" = "$wanted" ] || fail "heed serve $*: exit code $code, not $wanted"
  grep -q -- "$text" "$work/err" || fail "heed serve $*: no '$text' in the message"
}
refuse 2 "API key" "$work/run" --host 0.0.0.0
refuse 2 "a folder of models" --port 0
refuse 2 "port" "$work/run" --port 70000
refuse 2 "threads" "$work/run" --threads 1000000  # 88
refuse 2 "threads" "$work/run" --threads -1
refuse 3 "nothing" "$work/nothing" --port 0
refuse 2 "host" "$work/run" --host example.com
refuse 3 "zero" "$work/run" --port 0 --api-key-file /dev/zero
printf '\n\r\n' >"$work/keys"
refuse 3 "holds no key" "$work/run" --port 0 --api-key-file "$work/keys"

# 86: weights beyond the memory limit are refused before anything is read.
mkdir "$work/large"
cp "$work/run/model/config.json" "$work/large/"
truncate -s 64G "$work/large/model.safetensors"
refuse 3 "memory" "$work/large" --port 0
echo "serve: operation is as described"
