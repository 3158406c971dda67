#!/usr/bin/env bash
# No test asserts the time of day: on a loaded machine it would fail for nothing. Tests count work,
# bytes or processor time (cpu_seconds() of tests/support/budget.h). Clocks may only be read where a
# test waits for something with a deadline; such files are listed here.
set -euo pipefail
cd "$(dirname "$0")/.."

waiting=(
  tests/support/budget.h          # defines cpu_seconds()
  tests/faults/shim/clock_shim.cc # a clock of its own, for tests/app/progress.sh
  tests/faults/server_process.cc  # waits for a server
  tests/serve/test_server.cc
  tests/serve/http_limits_test.cc # sends slowly until the server hangs up
  tests/app/chat_test.cc          # waits for a program's output
  tests/serve/soak                # load for a given time; not part of ./dev test
  tests/serve/clients/rolling.py  # sends requests for a given time
  tests/browser/support.mjs       # prints how long a test took
  tests/browser/page.mjs          # unique names
  tests/browser/long_text.mjs     # asserts its bars only where HEED_MEASURE asks for it
)
skip=()
for path in "${waiting[@]}"; do skip+=(":(exclude)$path"); done

clocks='(steady|system|high_resolution)_clock::now|std::clock\(|clock_gettime|gettimeofday|time\.(time|monotonic|perf_counter)(_ns)?\(|performance\.now|Date\.now|\$\(date \+%s'
bad=0
if git grep -nE "$clocks" -- 'tests/*.cc' 'tests/*.h' 'tests/*.py' 'tests/*.sh' 'tests/*.bash' 'tests/*.mjs' \
  'python/tests' ':(exclude)tests/golden' ':(exclude)tests/fresh' "${skip[@]}" >&2; then
  echo "clock: these tests read a clock; count work, bytes or cpu_seconds() instead (tools/check_clock.sh)" >&2
  bad=1
fi
if git grep -nE '(EXPECT|ASSERT)_[A-Z]+\(.*(clock|Clock)::now' -- 'tests/*.cc' 'tests/*.h' >&2; then
  echo "clock: these tests assert the time of day (tools/check_clock.sh)" >&2
  bad=1
fi
exit $bad
