#!/usr/bin/env bash
# Finds words that the project has retired in favour of the field's own terms: in code, comments,
# messages, help texts, documents and Korean texts. Prints file, line, the word and its replacement;
# exits with 1 if there is any.
#
#   tools/check_words.sh            every file that git tracks
#   tools/check_words.sh FILE…      these files only
#
# The rules are in tools/retired_words.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

# Exceptions, each with its reason.
excluded=(
  tools/check_words.sh tools/retired_words.txt  # the rules themselves
  LICENSE
  web/dist web/package-lock.json  # made by tools
  fuzz/seeds fuzz/dictionaries    # bytes for the fuzzer
  tests/golden                    # reference values and the scripts that made them
  '*.svg'                         # drawn by heed
)
# Lines that may contain a retired word:
# - names of files that wait for a rename;
# - names that are part of the command line and stay as aliases (--mute of --ablate);
# - Korean sentences inside tests and prompts for a model.
allowed='tests/base/language_test\.cc:.*레이어|#include "(base/ahead\.h|kernels/(gemm_finish|turn)-inl\.h)"|--ablate,--mute|(src/retrieval/rag\.cc|tests/(retrieval|serve|text)/[^:]*):.*세요'

if [ $# -gt 0 ]; then
  files=("$@")
else
  skip=()
  for path in "${excluded[@]}"; do skip+=(":(exclude)$path"); done
  mapfile -t files < <(git ls-files -- . "${skip[@]}")
fi

RULES=tools/retired_words.txt ALLOWED=$allowed exec perl -CSDA tools/check_words.pl "${files[@]}"
