#!/usr/bin/env bash
# arm_suite.bash BUILD JOBS [PROGRAM… | scripts]: runs test programs whole, JOBS at a time, and then the
# scripts by ctest. One process per test, as ctest has it, would spend most of the time in qemu's start.
# HEED_ARM_LEFT_OUT: patterns of tests that are not run (as --gtest_filter has them), for an emulator's patience.
set -euo pipefail
build=$1 jobs=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work build HEED_SOURCE=$PWD HEED_PROGRAM=$PWD/$build/heed
say() { printf '%s\n' "$*" >&2; }

# run_program NAME: lines "ok TEST", "skipped TEST" and "failed TEST" to $work/NAME.results. A test that ends
# the whole program (or takes an hour) has failed; the program is started again for those after it.
run_program() {
  local name=$1 results=$work/$1.results log=$work/$1.log filter code last start=$SECONDS
  : >"$results"
  while :; do
    filter=$({ cut -d' ' -f2 "$results"; echo "${HEED_ARM_LEFT_OUT:-}"; } | sed '/^$/d' | paste -sd:)
    code=0
    timeout 3600 "$build/bin/$name" --gtest_color=no --gtest_filter="*${filter:+-$filter}" >"$log" 2>&1 </dev/null || code=$?
    sed -nE 's/^\[ +OK \] ([^ ]+).*/ok \1/p; s/^\[ +SKIPPED \] ([^ ]+) \(.*/skipped \1/p; s/^\[ +FAILED +\] ([^ ,]+).* \([0-9]+ ms\)$/failed \1/p' "$log" >>"$results"
    awk '/^\[ RUN  /{said=""} {said=said $0 "\n"} /^\[  FAILED  \] .* ms\)$/{printf "%s", said; said=""}' "$log" | head -200 >&2
    ! grep -q '^\[==========\] .* ran\.' "$log" || break
    last=$(sed -nE 's/^\[ RUN +\] ([^ ]+).*/\1/p' "$log" | tail -1)
    if [ -z "$last" ] || grep -q " $last\$" "$results"; then
      printf 'failed %s\n' "$name" >>"$results"
      tail -5 "$log" >&2
      break
    fi
    echo "failed $last" >>"$results"
    printf '%s ends the program with %d:\n%s\n' "$last" "$code" "$(tail -5 "$log")" >&2
  done
  printf '  %s: %d passed, %d failed, %d skipped, %d s\n' "$name" "$(grep -c '^ok' "$results")" "$(grep -c '^failed' "$results")" \
    "$(grep -c '^skipped' "$results")" $((SECONDS - start)) >&2
}
export -f run_program

programs=("$@")
[ $# -gt 0 ] || programs=($(cd "$build/bin" && ls | grep '^test_') scripts)
printf '%s\n' "${programs[@]}" | { grep -vx scripts || true; } | xargs -r -P "$jobs" -I{} bash -euo pipefail -c 'run_program "$1"' _ {}
count() { cat "$work"/*.results 2>/dev/null | grep -c "^$1" || true; }
passed=$(count ok) failed=$(count failed) skipped=$(count skipped)

# Scripts are module.name in small letters. Not those that compile with what was built (install, examples'
# programs), which crosswise would need this machine's libraries.
if [[ " ${programs[*]} " == *" scripts "* ]]; then
  source <(sed -n '/^run_tests()/,/^}/p' dev)
  line=$(run_tests "$build" -R '^[a-z0-9]+\.[a-z0-9_]+$' -E '^install\.|^examples\.programs$' -LE 'browser|python|mpi' | tail -1) || true
  say "  scripts: $line"
  read -r a _ b _ c _ <<<"$line"
  passed=$((passed + a)) failed=$((failed + b)) skipped=$((skipped + c))
fi
cat "$work"/*.results 2>/dev/null | sed -n 's/^failed /  failed: /p' >&2
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
