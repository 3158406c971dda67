#!/usr/bin/env bash
# ./dev package all [12 | 13]… [amd64 | arm64]…: Debian packages for both releases and processors and the
# archives, into dist/ (the wheel of this machine is made by ./dev package). Every one is built in a minimal root of its release (the other
# processor's crosswise), from the source as it is committed. Needs root, debootstrap and mount namespaces.
# HEED_FRESH_FOLDER, HEED_FRESH_CACHE, HEED_FRESH_CCACHE: as for tests/fresh/run.bash.
# HEED_FRESH_ROOTS: keeps the roots, so that a second run builds what changed.
set -euo pipefail
cd "$(dirname "$0")/../tests/fresh"
source=$(cd ../.. && pwd)
source root.bash
source cross.bash
say() { printf '%s\n' "dev: $*" >&2; }
[ "$(id -u)" = 0 ] || { say "./dev package all makes Debian roots and needs root"; exit 1; }

releases=() architectures=()
for word in "$@"; do
  case $word in
    12 | 13) releases+=("$word") ;;
    amd64 | arm64) architectures+=("$word") ;;
    *) say "./dev package all takes 12, 13, amd64 and arm64, not '$word'"; exit 2 ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(12 13)
[ ${#architectures[@]} -gt 0 ] || architectures=(amd64 arm64)
work=$(mktemp -d "${HEED_FRESH_FOLDER:-/var/tmp}/heed-package.XXXXXX")
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "$source/dist"

# package RELEASE ARCHITECTURE
package() {
  local release=$1 architecture=$2 root preset=package options=("-DHEED_PACKAGE_RELEASE=1+deb$1")
  say "packages for Debian $release, $architecture"
  build_root "$release" "$architecture"
  [ -z "$(foreign "$architecture")" ] || preset=aarch64
  options+=("-DHEED_MAINTAINER=${DEBFULLNAME:-heed developers} <${DEBEMAIL:-heed@localhost.localdomain}>")
  [ -z "${HEED_FRESH_CCACHE:-}" ] || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  inside "$root" root /heed bash -euo pipefail -c '
    preset=$1
    shift
    cmake --preset "$preset" "$@" >/tmp/configure.log 2>&1 || { tail -20 /tmp/configure.log; exit 1; }
    ninja -C "build-$preset" heed_program heed_shared heed_static heed_lessons_shared heed_lessons_static heed_portable
    rm -rf dist
    bash tools/package.sh "build-$preset" dist' _ "$preset" "${options[@]}" >&2
  cp "$root"/heed/dist/*.deb "$source/dist"
  # The archive is built on the oldest release, so that it runs on all.
  [ "$release" != 12 ] || cp "$root"/heed/dist/*.tar.gz "$source/dist"
}

for release in "${releases[@]}"; do
  for architecture in "${architectures[@]}"; do
    package "$release" "$architecture"
  done
done
(cd "$source/dist" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS && du -h --apparent-size -- *) >&2
