#!/usr/bin/env bash
# whole_programs.bash BUILD JOBS [PROGRAM… | scripts]: runs test programs whole, JOBS at a time, and then the
# scripts by ctest. One process per test, as ctest has it, would spend most of the time in the start of an
# emulator (./dev test arm) or of a sanitizer (./dev test asan-ubsan).
# HEED_TEST_LIMIT: seconds of processor time that one test may take (default 600). A test over it has failed;
# the program is started again for those after it. Tests that no emulator can run skip themselves
# (tests/support/emulated.h); every one is listed with its reason. BUILD/programs keeps what the programs said.
# HEED_TEST_LEFT_OUT: patterns of tests that are not run (as --gtest_filter has them).
set -euo pipefail
build=$1 jobs=$2
shift 2
work=$PWD/$build/programs
limit=${HEED_TEST_LIMIT:-600}
rm -rf "$work"
mkdir -p "$work"
export work build limit HEED_SOURCE=$PWD HEED_PROGRAM=$PWD/$build/heed
say() { printf '%s\n' "$*" >&2; }

# processor_seconds PID: of all its threads.
processor_seconds() {
  local stat
  stat=$(<"/proc/$1/stat") 2>/dev/null || return 1
  set -- ${stat##*) }
  echo $(((${12} + ${13}) / 100))
}

# limit_test PID LOG: ends the process where its last test takes more than the limit, or stands still.
limit_test() {
  local pid=$1 log=$2 test= now used before=0 since=$SECONDS
  while sleep 2 && used=$(processor_seconds "$pid" 2>/dev/null); do
    now=$(grep -a '^\[ RUN ' "$log" | tail -1)
    if [ "$now" != "$test" ]; then
      test=$now before=$used since=$SECONDS
    elif ((used - before > limit)); then
      echo "over the limit of $limit s of processor time" >"$log.ended"
      kill -KILL "$pid" 2>/dev/null
    elif ((SECONDS - since > 100 * limit)); then
      echo "no end after $((SECONDS - since)) s" >"$log.ended"
      kill -KILL "$pid" 2>/dev/null
    fi
  done
}

# run_program NAME: lines "ok TEST", "skipped TEST REASON" and "failed TEST" to $work/NAME.results. A test that
# ends the whole program has failed; the program is started again for those after it.
run_program() {
  local name=$1 results=$work/$1.results log filter code last pid start=$SECONDS try=0 reason
  : >"$results"
  while :; do
    try=$((try + 1)) log=$work/$name.$try.log
    filter=$({ cut -d' ' -f2 "$results"; echo "${HEED_TEST_LEFT_OUT:-}"; } | sed '/^$/d' | paste -sd:)
    code=0
    "$build/bin/$name" --gtest_color=no --gtest_filter="*${filter:+-$filter}" >"$log" 2>&1 </dev/null &
    pid=$!
    limit_test "$pid" "$log" &
    wait "$pid" || code=$?
    wait
    awk '/^\[ RUN  /{reason=""; said=0} said{reason=$0; said=0} /: Skipped$/{said=1}
      /^\[       OK \] /{print "ok", $4} /^\[  SKIPPED \] .* ms\)$/{print "skipped", $4, reason}
      /^\[  FAILED  \] .* ms\)$/{sub(",$", "", $4); print "failed", $4}' "$log" >>"$results"
    awk '/^\[ RUN  /{said=""} {said=said $0 "\n"} /^\[  FAILED  \] .* ms\)$/{printf "%s", said; said=""}' "$log" | head -200 >&2
    ! grep -q '^\[==========\] .* ran\.' "$log" || break
    last=$(sed -nE 's/^\[ RUN +\] ([^ ]+).*/\1/p' "$log" | tail -1)
    if [ -z "$last" ] || cut -d' ' -f2 "$results" | grep -qxF "$last"; then
      printf 'failed %s\n' "$name" >>"$results"
      tail -5 "$log" >&2
      break
    fi
    echo "failed $last" >>"$results"
    reason="ends the program with $code"
    [ ! -e "$log.ended" ] || reason=$(cat "$log.ended")
    printf '%s: %s:\n%s\n' "$last" "$reason" "$(grep -aE 'runtime error|Sanitizer|^ *#[0-9]' "$log" | tail -20; tail -5 "$log")" >&2
  done
  # What ends a program that has passed every test, such as a leak.
  if [ "$code" != 0 ] && ! grep -q '^failed' "$results"; then
    echo "failed $name ends with $code" >>"$results"
    grep -avE '^\[' "$log" | tail -40 >&2
  fi
  printf '  %s: %d passed, %d failed, %d skipped, %d s\n' "$name" "$(grep -c '^ok' "$results")" "$(grep -c '^failed' "$results")" \
    "$(grep -c '^skipped' "$results")" $((SECONDS - start)) >&2
}
export -f processor_seconds limit_test run_program

programs=("$@")
[ $# -gt 0 ] || programs=($(cd "$build/bin" && ls | grep '^test_') scripts)
printf '%s\n' "${programs[@]}" | { grep -vx scripts || true; } | xargs -r -P "$jobs" -I{} bash -uo pipefail -c 'run_program "$1"' _ {}
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
cat "$work"/*.results 2>/dev/null | sed -nE 's/^(failed|skipped) ([^ ]+) ?(.*)/  \1: \2  \3/p' | sed 's/ *$//' | sort >&2
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
