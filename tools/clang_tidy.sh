#!/usr/bin/env bash
# clang-tidy, whose every complaint is an error (.clang-tidy says what it looks at).
#
#   tools/clang_tidy.sh          the source files that differ from main (on main: from the commit before)
#   tools/clang_tidy.sh --all    all source files of the library, the program and the examples
#
# The folder build-lint is configured for it, without precompiled headers, which clang cannot read. With --all
# files are read together in units (HEED_UNITY), far larger than the build's: most of the time goes to
# headers, which a unit reads once. HEED_LINT_JOBS says how many run at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
all=${1:-} jobs=${HEED_LINT_JOBS:-$(nproc)}
unity=OFF
[ "$all" != --all ] || unity=ON
mkdir -p build-lint
cmake -S . -B build-lint -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEED_PCH=OFF -DHEED_UNITY=$unity -DHEED_UNITY_LINES=8000 \
  -DHEED_TESTS=OFF -DHEED_EXAMPLES=ON -DHEED_WERROR=ON >build-lint/configure.log 2>&1 ||
  { cat build-lint/configure.log >&2; exit 1; }

if [ "$all" = --all ]; then
  files=$(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\".*|\1|p" build-lint/compile_commands.json | sort -u)
else
  base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse -q --verify HEAD~1 || echo "$base")
  files=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'apps/*.cc' 'examples/*.cc')
fi
[ -n "$files" ] || exit 0
echo "clang-tidy: $(wc -l <<<"$files") files" >&2

# tidy [arguments…]: runs clang-tidy on the files on stdin.
tidy() {
  xargs -r -P "$jobs" -n 1 clang-tidy-14 -p build-lint --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option "$@" >&2 2>>build-lint/tidy.log
}
: >build-lint/tidy.log
kernels='^src/kernels/|/unity/kernels_'
failed=0
{ grep -vE "$kernels" <<<"$files" || true; } | tidy || failed=1
# Kernels are compiled once per target by Highway's own means; here for one target, with wide vectors where
# the compiler can make them. A region for an instruction set that this target lacks is empty.
# Macros there take types and names of functions, which no parentheses may enclose.
target=()
[ "$(uname -m)" != x86_64 ] || target=(--extra-arg=-march=icelake-server)
{ grep -E "$kernels" <<<"$files" || true; } |
  tidy --checks=-bugprone-macro-parentheses --extra-arg=-DHWY_COMPILE_ONLY_STATIC --extra-arg=-Wno-pragma-clang-attribute "${target[@]}" || failed=1
exit $failed
