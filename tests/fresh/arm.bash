#!/usr/bin/env bash
# ./dev test arm [PROGRAM… | scripts]: the suite for aarch64, cross-built in a Debian root and run by
# qemu-user on this machine; ends with "N passed, N failed, N skipped". PROGRAM: test programs such as
# test_kernels (default: all, and the scripts). Needs what run.bash needs, and a kernel with binfmt_misc.
# HEED_ARM_RELEASE: 12 (default) or 13. HEED_ARM_JOBS: programs at a time (default 2). HEED_TEST_LIMIT, HEED_TEST_LEFT_OUT:
# tests/support/whole_programs.bash.
# HEED_FRESH_FOLDER, HEED_FRESH_CACHE, HEED_FRESH_CCACHE: as for run.bash. HEED_FRESH_ROOTS, QEMU_CPU: cross.bash.
set -euo pipefail
cd "$(dirname "$0")"
source=$(cd ../.. && pwd)
source root.bash
source cross.bash
release=${HEED_ARM_RELEASE:-12}

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null || ! unshare --mount --pid --fork true 2>/dev/null; then
  echo "dev: ./dev test arm needs root, debootstrap and mount namespaces" >&2
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
work=$(mktemp -d "${HEED_FRESH_FOLDER:-/var/tmp}/heed-arm.XXXXXX")
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
build_root "$release" arm64
# Real models and texts, for the tests that read them.
[ ! -d "$source/../shared/data" ] || { mkdir -p "$root/shared" && cp -a "$source/../shared/data" "$root/shared"; }

options=()
[ -z "${HEED_FRESH_CCACHE:-}" ] || options=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
targets=()
for program in "$@"; do
  case $program in scripts) targets+=(all) ;; *) targets+=("$program") ;; esac
done
inside "$root" root /heed bash -euo pipefail -c '
  options=("${@:2:$1}")
  shift $(($1 + 1))
  cmake --preset aarch64 -DHEED_WERROR=ON -DHEED_TESTS=ON -DHEED_EXAMPLES=ON "${options[@]}" >/tmp/configure.log 2>&1 || { tail -20 /tmp/configure.log; exit 1; }
  ninja -C build-aarch64 "$@"' _ ${#options[@]} "${options[@]}" "${targets[@]}" >&2 ||
  { echo "dev: building for aarch64 failed" >&2; exit 1; }

code=0 emulated=
[ "$(uname -m)" = aarch64 ] || emulated=1 # for scripts
registered inside "$root" root /heed env ${emulated:+HEED_EMULATED=1} "HEED_TEST_LIMIT=${HEED_TEST_LIMIT:-}" \
  "HEED_TEST_LEFT_OUT=${HEED_TEST_LEFT_OUT:-}" bash tests/support/whole_programs.bash build-aarch64 "${HEED_ARM_JOBS:-2}" "$@" || code=$?
if [ "$code" = 70 ]; then
  echo "dev: ./dev test arm needs binfmt_misc and qemu-aarch64-static" >&2
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
exit "$code"
