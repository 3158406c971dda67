#!/usr/bin/env bash
# ./dev test arm [CTEST OPTIONS…]: the suite for aarch64, cross-built in a Debian root and run by qemu-user on this
# machine; ends with the suite's own "N passed, N failed, N skipped". Needs what run.bash needs.
# HEED_ARM_RELEASE: 12 (default) or 13. HEED_ARM_TARGETS: what ninja builds (default: everything).
# HEED_FRESH_FOLDER, HEED_FRESH_CACHE, HEED_FRESH_KEEP, HEED_FRESH_CCACHE: as for run.bash.
set -euo pipefail
cd "$(dirname "$0")"
source=$(cd ../.. && pwd)
source root.bash
release=${HEED_ARM_RELEASE:-12}

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null || ! unshare --mount --pid --fork true 2>/dev/null; then
  echo "dev: ./dev test arm needs root, debootstrap and mount namespaces" >&2
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
work=$(mktemp -d "${HEED_FRESH_FOLDER:-/var/tmp}/heed-arm.XXXXXX")
chmod 755 "$work"
[ "${HEED_FRESH_KEEP:-}" = 1 ] || trap 'rm -rf --one-file-system "$work"' EXIT
root=$(new_root "$release" arm)
clone_into "$root" /heed

# Libraries are those of the foreign architecture; everything that runs while building is this machine's.
packages=$(cd "$source" && source tools/packages.bash && HEED_RELEASE=$release table_of 2 build test)
foreign=() own=(crossbuild-essential-arm64 qemu-user ccache)
for package in $packages; do
  case $package in
    build-essential | openmpi-bin | libopenmpi-dev) ;; # MPI's launchers cannot start what qemu runs
    lib*-dev | libgtest-dev) foreign+=("$package:arm64") ;;
    *) own+=("$package") ;;
  esac
done
inside "$root" root / bash -c 'dpkg --add-architecture arm64 && apt-get update -qq &&
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null' _ "${own[@]}" "${foreign[@]}"

launcher=()
[ -z "${HEED_FRESH_CCACHE:-}" ] || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
inside "$root" root /heed bash -euo pipefail -c '
  cmake --preset aarch64 -DHEED_TESTS=ON -DHEED_EXAMPLES=ON "${@:2}" >/tmp/configure.log 2>&1 || { tail -20 /tmp/configure.log; exit 1; }
' _ "${#launcher[@]}" "${launcher[@]}" >&2 || { echo "dev: configuring for aarch64 failed" >&2; exit 1; }
inside "$root" root /heed ninja -C build-aarch64 ${HEED_ARM_TARGETS:-} >&2
# Scripts start the program by its name: a file of that name runs it by qemu.
inside "$root" root /heed bash -euo pipefail -c '
  shopt -s nullglob
  for program in build-aarch64/heed build-aarch64/examples/*; do
    if [ -f "$program" ] && [ "$(head -c 4 "$program" | tail -c 3)" = ELF ]; then
      mv "$program" "$program.aarch64"
      printf "#!/bin/sh\nexec qemu-aarch64 \"\$0.aarch64\" \"\$@\"\n" >"$program"
      chmod +x "$program"
    fi
  done'
inside "$root" root /heed bash -c 'source <(sed -n "/^run_tests()/,/^}/p" dev); run_tests build-aarch64 "$@"' _ "$@"
