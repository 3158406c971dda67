#!/usr/bin/env bash
# Finds functions that take eight parameters or more: such a call cannot be read without the
# declaration beside it. Prints file, line and name; exits with 1 if there is any.
#
#   tools/check_parameters.sh           every C++ file that git tracks
#   tools/check_parameters.sh FILE…     these files only
#
# python/ is left out: the parameters of its lambdas are the keyword arguments of a Python function.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files -- '*.cc' '*.h' ':(exclude)python')
fi
LIMIT=8 exec perl tools/check_parameters.pl "${files[@]}"
