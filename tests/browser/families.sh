#!/usr/bin/env bash
# families.sh HEED SOURCE: the explorer on every golden model, so on every family that heed loads: the page's formulas against
# the engine's weights in every head, and all eleven steps on the page (one model of each model_type, in Chromium).
# HEED_EXPLORER_FILTER is a regular expression over the models' names. Skipped where the browser tests are.
set -euo pipefail
heed=$(realpath "$1") source=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
source "$here/npm.bash"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || { echo "the browser tests need Node.js 20"; exit 77; }
[ -x /usr/bin/chromium ] || { echo "no browser: apt-get install chromium"; exit 77; }
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for folder in "$source"/tests/golden/models/*/; do
  name=$(basename "$folder")
  [[ $name =~ ${HEED_EXPLORER_FILTER:-.} ]] || continue
  mkdir "$work/$name"
  cp "$folder/config.json" "$folder/model.safetensors" "$work/$name"
  # Their vocabularies have 37 tokens without names.
  { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 5 36); do echo "w$i"; done; } >"$work/$name/vocab.txt"
done
: >"$work/err"
"$heed" explore "$work"/*/ --port 0 --no-browser 2>"$work/err" &
server=$!
for _ in $(seq 600); do
  url=$(sed -nE 's/^listening on (http:.*)$/\1/p' "$work/err")
  [ -z "$url" ] || break
  kill -0 "$server" 2>/dev/null || { cat "$work/err"; exit 1; }
  sleep 0.05
done
node "$here/families.mjs" "$url"
kill -0 "$server" || { echo "the server died"; exit 1; }
