#!/usr/bin/env bash
# Reads every source file with Clang, without making code: a warning is an error.
#
#   tools/clang_syntax.sh CLANG [JOBS [PATTERN]]   tools/clang_syntax.sh clang++-19 2 'src/kernels/|unity/test_'
#
# PATTERN chooses by the file's path (an extended regular expression). The folder build-CLANG is configured for it, with tests,
# examples and benchmarks; files are read together as the build does (a third of the time).
set -euo pipefail
cd "$(dirname "$0")/.."
compiler=$1 jobs=${2:-$(nproc)} pattern=${3:-}
folder=build-$compiler
mkdir -p "$folder"
cmake -S . -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DHEED_PCH=OFF -DHEED_UNITY=ON \
  -DHEED_TESTS=ON -DHEED_EXAMPLES=ON -DHEED_BENCH=ON -DHEED_WERROR=ON >"$folder/configure.log" 2>&1 ||
  { cat "$folder/configure.log" >&2; exit 1; }
# Sources that a step of the build writes.
ninja -C "$folder" -t targets all | sed -n 's/^\(.*\.\(cc\|h\|inc\)\): CUSTOM_COMMAND.*/\1/p' | xargs -r ninja -C "$folder" >/dev/null

# One command per line: without its output file, with -fsyntax-only.
perl -ne '
  if (/^\s*"command": "(.*)",?$/) {
    my $command = $1;
    $command =~ s/\\(.)/$1/g;
    $command =~ s/ -o \S+ -c / -fsyntax-only -c / or next;
    print "$command\n";
  }' "$folder/compile_commands.json" | awk -v pattern="$pattern" '$NF ~ pattern' >"$folder/commands"
echo "$compiler: $(wc -l <"$folder/commands") files" >&2
if ! (cd "$folder" && tr '\n' '\0' <commands | xargs -0 -r -P "$jobs" -n 1 bash -c) 2>"$folder/warnings" >&2; then
  grep -E 'warning:|error:|^make' -A3 "$folder/warnings" | head -200 >&2
  echo "$compiler: warnings in $folder/warnings" >&2
  exit 1
fi
