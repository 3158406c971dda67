#!/usr/bin/env bash
# ./dev package all [12 | 13]… [amd64 | arm64]…: Debian packages and wheels for both releases and processors and
# the archives, into dist/. Every one is built in a minimal root of its release (arm64's crosswise on amd64), from
# the source as it is committed. Needs root, debootstrap and mount namespaces.
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
if [ "$(uname -m)" = aarch64 ]; then
  [[ " ${architectures[*]} " != *" amd64 "* ]] || { say "packages for amd64 are made on amd64"; exit 2; }
  architectures=(arm64)
fi
[ ${#architectures[@]} -gt 0 ] || architectures=(amd64 arm64)
work=$(mktemp -d "${HEED_FRESH_FOLDER:-/var/tmp}/heed-package.XXXXXX")
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "$source/dist"

uname_of() {
  case $1 in amd64) echo x86_64 ;; arm64) echo aarch64 ;; esac
}

# package RELEASE ARCHITECTURE
package() {
  local release=$1 architecture=$2 root preset=package options=("-DHEED_PACKAGE_RELEASE=1+deb$1")
  say "packages for Debian $release, $architecture"
  build_root "$release" "$architecture"
  rm -rf "$root/heed/dist"
  mkdir "$root/heed/dist"
  cp "$source"/dist/*"_$(uname -m).whl" "$root/heed/dist" 2>/dev/null || true # its types: tools/wheel.sh
  [ -z "$(foreign "$architecture")" ] || preset=aarch64
  options+=("-DHEED_MAINTAINER=${DEBFULLNAME:-heed developers} <${DEBEMAIL:-nobody@heed.invalid}>")
  [ -z "${HEED_FRESH_CCACHE:-}" ] || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  inside "$root" root /heed bash -euo pipefail -c '
    preset=$1
    shift
    cmake --preset "$preset" "$@" >/tmp/configure.log 2>&1 || { tail -20 /tmp/configure.log; exit 1; }
    ninja -C "build-$preset" heed_program heed_shared heed_static heed_lessons_shared heed_lessons_static heed_portable heed_wheel
    bash tools/package.sh "build-$preset" dist
    code=0
    bash tools/wheel.sh "build-$preset" "build-$preset/wheel" dist || code=$?
    [ $code = 69 ] || exit $code' _ "$preset" "${options[@]}" >&2
  cp "$root"/heed/dist/*.deb "$source/dist"
  cp "$root"/heed/dist/*"_$(uname_of "$architecture").whl" "$source/dist" 2>/dev/null || true
  # The archive is built on the oldest release, so that it runs on all.
  [ "$release" != 12 ] || cp "$root"/heed/dist/*.tar.gz "$source/dist"
}

for release in "${releases[@]}"; do
  for architecture in "${architectures[@]}"; do
    package "$release" "$architecture"
  done
done
(cd "$source/dist" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS && du -h --apparent-size -- *) >&2
