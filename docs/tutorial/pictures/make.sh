#!/usr/bin/env bash
# make.sh [BUILD]: makes the tutorial's pictures again, by running the lessons' programs. About a minute.
set -euo pipefail
cd "$(dirname "$0")"
build=${1:-../../../build}
for lesson in "$build"/examples/[0-9]*; do
  [ -f "$lesson" ] && [ -x "$lesson" ] || continue
  case $(basename "$lesson") in
    12_*|14_*) "$lesson" "" . > /dev/null ;;  # their first argument is a file or folder of one's own
    *) "$lesson" . > /dev/null ;;
  esac
done
ls -- *.svg
