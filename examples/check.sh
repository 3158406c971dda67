#!/usr/bin/env bash
# check.sh PROGRAM EXPECTED [--update]: runs a lesson, in Korean where EXPECTED lies in a folder ko, and compares
# what it prints, line by line. Text must be equal. Numbers with a decimal point may differ by one in their last
# digit, as sums round differently on processors with wider vectors; {LOW..HIGH} in EXPECTED stands for any number
# between the two, for what training ends with.
set -euo pipefail
program=$1 expected=$2
actual=$(mktemp)
trap 'rm -f "$actual"' EXIT
language=en
[ "$(basename "$(dirname "$expected")")" != ko ] || language=ko
HEED_LANG=$language "$program" > "$actual"
if [ "${3:-}" = --update ]; then
  cp "$actual" "$expected"
  exit
fi
[ "$(wc -l < "$actual")" -eq "$(wc -l < "$expected")" ] || { diff "$expected" "$actual" || true; echo "FAILED: not as many lines"; exit 1; }
paste -d $'\x01' "$expected" "$actual" | LC_ALL=C awk -F $'\x01' '
  function number(text) { return match(text, /^-?[0-9]+(\.[0-9]+)?/) ? substr(text, 1, RLENGTH) : "" }
  function decimals(text) { return index(text, ".") ? length(text) - index(text, ".") : 0 }
  function same(want, got,   a, b, range, low, high, step) {
    while (want != "" || got != "") {
      if (match(want, /^\{-?[0-9.]+\.\.-?[0-9.]+\}/)) {
        range = substr(want, 2, RLENGTH - 2); want = substr(want, RLENGTH + 1)
        low = range; sub(/\.\..*/, "", low); high = range; sub(/.*\.\./, "", high)
        b = number(got)
        if (b == "" || b + 0 < low + 0 || b + 0 > high + 0) return 0
        got = substr(got, length(b) + 1)
        continue
      }
      a = number(want); b = number(got)
      if (a != "" && b != "") {
        step = decimals(a) > 0 ? 1.01 * 10 ^ -decimals(a) : 0
        if (decimals(a) != decimals(b) || a - b > step || b - a > step) return 0
        want = substr(want, length(a) + 1); got = substr(got, length(b) + 1)
        continue
      }
      if (substr(want, 1, 1) != substr(got, 1, 1)) return 0
      want = substr(want, 2); got = substr(got, 2)
    }
    return 1
  }
  !same($1, $2) { printf "line %d\n  expected: %s\n  printed:  %s\n", NR, $1, $2; bad = 1 }
  END { exit bad }' || { echo "FAILED: $(basename "$program")"; exit 1; }
echo passed
