#!/usr/bin/env bash
# GGUF files that people have, from the folder HEED_MODELS: each opens, and a greedy answer is the same
# on one thread and on two. Skipped where there is no such folder.
set -euo pipefail
heed=$1
shopt -s nullglob
files=("${HEED_MODELS:-/nonexistent}"/*.gguf)
[ "${#files[@]}" -gt 0 ] || exit 77
for file in "${files[@]}"; do
  "$heed" info "$file" --json | grep -q '"parameters"' || { echo "FAILED: info of $file"; exit 1; }
  answer() { "$heed" generate "$file" --prompt "def fibonacci(n):" --max-tokens 8 --temperature 0 --threads "$1"; }
  one=$(answer 1)
  two=$(answer 2)
  [ -n "$one" ] && [ "$one" = "$two" ] || { echo "FAILED: $file says '$one' and '$two'"; exit 1; }
  echo "$file: $one"
done
echo ok
