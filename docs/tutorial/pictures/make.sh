#!/usr/bin/env bash
# make.sh [BUILD]: makes the tutorial's pictures again in both languages, by running the lessons' programs. About two minutes.
set -euo pipefail
cd "$(dirname "$0")"
build=${1:-../../../build}
mkdir -p ko
for lesson in "$build"/examples/[0-9]*; do
  [ -f "$lesson" ] && [ -x "$lesson" ] || continue
  case $(basename "$lesson") in
    12_* | 14_*) own=("") ;; # their first argument is a file or folder of one's own
    *) own=() ;;
  esac
  HEED_LANG=en "$lesson" "${own[@]}" . >/dev/null
  HEED_LANG=ko "$lesson" "${own[@]}" ko >/dev/null
done
ls -- *.svg ko/*.svg
