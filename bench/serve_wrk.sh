#!/usr/bin/env bash
# wrk (Debian) against heed serve: bench/serve_wrk.sh HEED NAME=LM NAME=ENCODER [SECONDS]
# Requests per second and latency at 1, 4, 16 and 64 connections: /health (answered on the I/O thread),
# /tokenize (parsed, validated and answered by a worker: the server's own overhead) and embeddings.
set -euo pipefail
heed=$1 lm=$2 encoder=$3 seconds=${4:-3}
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
"$heed" serve "$lm" "$encoder" --port 0 --quiet 2>"$work/err" &
server=$!
for _ in $(seq 600); do
  url=$(sed -n 's/^listening on //p' "$work/err")
  [ -z "$url" ] || break
  sleep 0.1
done
post() { # post FILE BODY
  printf 'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = [[%s]]\n' "$2" >"$work/$1.lua"
}
post tokenize "{\"model\": \"${lm%%=*}\", \"content\": \"the quick brown fox jumps over the lazy dog\"}"
post embeddings "{\"model\": \"${encoder%%=*}\", \"input\": \"the quick brown fox jumps over the lazy dog\"}"
cpu() { awk '{print $14 + $15}' "/proc/$server/stat"; }
run() { # run NAME PATH CONNECTIONS [SCRIPT]
  local before after
  before=$(cpu)
  wrk -t1 -c"$3" -d"${seconds}s" --latency ${4:+-s "$4"} "$url$2" >"$work/out"
  after=$(cpu)
  awk -v name="$1" -v connections="$3" -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" '
    /Latency +[0-9]/ {mean = $2} /50%/ {p50 = $2} /99%/ {p99 = $2} /requests in/ {count = $1} /Requests\/sec/ {rate = $2}
    /Non-2xx/ {bad = $NF}
    END {printf "%-11s %3d connections %9.0f requests/s  mean %8s  p50 %8s  p99 %8s  server CPU %6.1f us/request  refused %d\n",
      name, connections, rate, mean, p50, p99, 1e6 * ticks / hz / count, bad}' "$work/out"
}
for connections in 1 4 16 64; do run health /health "$connections"; done
for connections in 1 4 16 64; do run tokenize /tokenize "$connections" "$work/tokenize.lua"; done
for connections in 1 4 16 64; do run embeddings /v1/embeddings "$connections" "$work/embeddings.lua"; done
