# The commands of ./dev that show reliability (docs/reliability.md); sourced by ./dev.

# fuzz TARGET SECONDS | fuzz all MINUTES: libFuzzer with the address and undefined-behaviour sanitizers.
# Inputs that reach new code are kept in build-fuzz/corpus, those that crash in build-fuzz/crashes.
command_fuzz() {
  [ $# -eq 2 ] || die "usage: ./dev fuzz TARGET SECONDS, or ./dev fuzz all MINUTES (shared by all targets)"
  need build fuzz
  local cached=()
  ! command -v ccache >/dev/null || cached=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # One SIMD target: the readers hold no vector code, and compiling takes a third of the time.
  CXX=clang++-19 configure build-fuzz "${cached[@]}" -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    "-DCMAKE_CXX_FLAGS=-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fsanitize-coverage-ignorelist=$PWD/fuzz/uninstrumented.txt -DHWY_COMPILE_ONLY_STATIC" \
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1" -DHEED_FUZZ=ON -DHEED_TESTS=OFF -DHEED_EXAMPLES=OFF -DHEED_MPI=OFF
  local targets=("$1") seconds=$2 target failed=0
  if [ "$1" = all ]; then
    mapfile -t targets < <(cd fuzz && ls ./*.cc | sed 's|^\./||; s|\.cc$||' | grep -vE '^(target|replay|libfuzzer)$')
    seconds=$(($2 * 60 / ${#targets[@]}))
  fi
  for target in "${targets[@]}"; do
    [ -e "fuzz/$target.cc" ] || die "there is no fuzz target $target"
  done
  ninja -C build-fuzz fuzz_libfuzzer >&2
  for target in "${targets[@]}"; do
    fuzz_one "$target" "$seconds" || failed=1
  done
  return $failed
}

fuzz_one() {
  local target=$1 seconds=$2 dictionary=()
  [ -e "fuzz/dictionaries/$target.dict" ] && dictionary=("-dict=fuzz/dictionaries/$target.dict")
  mkdir -p "build-fuzz/corpus/$target" build-fuzz/crashes "fuzz/seeds/$target"
  local log=build-fuzz/$target.log
  if HEED_FUZZ_TARGET=$target build-fuzz/bin/fuzz_libfuzzer -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
    -print_final_stats=1 "${dictionary[@]}" -artifact_prefix="build-fuzz/crashes/$target-" "build-fuzz/corpus/$target" \
    "fuzz/seeds/$target" >"$log" 2>&1; then
    printf '%-16s %s executions, %s edges, %s inputs kept, nothing found\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(sed -nE 's/^#[0-9]+.* cov: ([0-9]+) .*/\1/p' "$log" | tail -1)" "$(ls "build-fuzz/corpus/$target" | wc -l)"
  else
    printf '%-16s FAILED\n' "$target"
    tail -40 "$log" >&2
    return 1
  fi
}

# coverage: what the fast tests, the fuzzers' seeds and the scripts that run the program reach of the lines, and of the branches of
# the readers. Fails where that is too little (tools/coverage.py); what is not reached is listed in build-coverage/report.
command_coverage() {
  need build test coverage
  local folder=build-coverage tests
  build coverage -DHEED_WERROR=OFF -- heed_program
  mapfile -t tests < <(ninja -C $folder -t targets all | sed -nE 's|^bin/(test_[a-z]+): .*|\1|p')
  build coverage -- fuzz_replay heed_fault_shim heed_clock_shim "${tests[@]}"
  rm -rf $folder/profiles $folder/report
  mkdir -p $folder/profiles $folder/report
  chmod 777 $folder/profiles # a test runs the program as another user
  printf '%s\n' "${tests[@]}" fuzz_replay "${coverage_scripts[@]}" |
    HEED_SOURCE=$PWD HEED_PROGRAM=$PWD/$folder/heed xargs -P2 -n1 bash tools/coverage_run.sh "$folder" >&2
  llvm-profdata-19 merge --failure-mode=all -o $folder/report/all.profdata $folder/profiles/*.profraw
  llvm-cov-19 export -skip-functions -instr-profile $folder/report/all.profdata $folder/heed >$folder/report/export.json
  python3 tools/coverage.py $folder/report/export.json $folder/report
}

# Those that only run the program, without a browser, Python packages, MPI or models that must be downloaded.
coverage_scripts=(app/commands app/eval app/everyday app/plus_two app/progress app/stream app/translate app/completion
  data/data_command inspect/inspect_command models/convert ops/attention_command retrieval/readers serve/operation
  text/tokenize_command train/long_models train/lora_command train/train_command)

# crash [KILLS]: a fault at every single file operation, then so many kills (tests/faults/crash.sh).
command_crash() {
  need build test
  build release -- heed_program heed_fault_shim
  # In memory, where syncing costs nothing: the faults come from the library that is loaded before the program.
  [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
  HEED_CRASH_STRIDE=1 HEED_KILLS=${1:-1000} bash tests/faults/crash.sh "$PWD/build/heed" "$PWD"
}

# reproducible: builds this commit twice as packages are built, in folders of different names, and compares.
command_reproducible() {
  need build
  local name folder commit
  commit=$(git rev-parse HEAD)
  folder=$(mktemp -d)
  for name in first the-second-one; do
    git worktree add -q --detach "$folder/$name" "$commit"
    (cd "$folder/$name" && configure build --preset release -DHEED_HARDENED=ON -DHEED_TESTS=OFF -DHEED_EXAMPLES=OFF &&
      CCACHE_DISABLE=1 ninja -C build heed_program heed_shared >&2)
  done
  local code=0
  for name in heed lib/libheed.so; do
    if cmp "$folder/first/build/$name" "$folder/the-second-one/build/$name"; then
      say "dev: $name is the same to the byte: $(sha256sum <"$folder/first/build/$name" | cut -c1-16)…"
    else
      code=1
    fi
  done
  HEED_HARDENED=ON bash tests/faults/hardening.sh "$folder/first/build/heed" >&2 || code=1
  for name in first the-second-one; do
    git worktree remove --force "$folder/$name"
  done
  rmdir "$folder"
  return $code
}

# sbom [FILE]: the software bill of materials of build/heed as SPDX 2.3 (JSON).
command_sbom() {
  need build
  build release -- heed_program
  bash tools/sbom.sh build/heed >"${1:-build/heed.spdx.json}"
  say "dev: the bill of materials is in ${1:-build/heed.spdx.json}"
}
