#!/usr/bin/env bash
# package.sh BUILD DIST [archive]: adds the Debian packages and the relocatable archive of a build folder to
# DIST, or the archive alone. A folder that was built for aarch64 on another machine is packed there, too: its
# programs run by qemu-aarch64. ./dev package builds first, calls this and writes the SHA-256 sums.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8 # what readelf and dpkg say is read below
build=$1 dist=$(realpath -m "$2") only=${3:-}
version=$(sed -nE 's/^#define HEED_VERSION_[A-Z]+ //p' include/heed/version.h | paste -sd.)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"
# The same commit gives the same packages: CPack, CMake and tar take this time for their files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y include/heed/version.h)}
export SOURCE_DATE_EPOCH

case $(readelf -h "$build/portable/heed" | sed -n 's/ *Machine: *//p') in
  AArch64) machine=aarch64 ;;
  *X86-64) machine=x86_64 ;;
  *) echo "package.sh: $build/portable/heed is for no machine that heed is made for" >&2; exit 1 ;;
esac
emulator=() prefix=
if [ "$machine" != "$(uname -m)" ]; then
  emulator=("qemu-$machine") prefix=$machine-linux-gnu-
  eval "$(dpkg-architecture -A arm64 -s 2>/dev/null)" # dpkg-shlibdeps reads these variables
fi

if [ "$only" != archive ]; then
  command -v dpkg-shlibdeps >/dev/null || { echo "package.sh: dpkg-shlibdeps is missing (package dpkg-dev)" >&2; exit 1; }
  cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  for package in "$work"/cpack/*.deb; do # one that names no libraries installs and does not run
    dpkg-deb -f "$package" Depends | grep -qE 'libc6|libheed' || { echo "package.sh: ${package##*/} depends on nothing" >&2; exit 1; }
  done
  mv "$work"/cpack/*.deb "$dist"
fi

# Other machines' programs are looked at there.
[ ${#emulator[@]} -gt 0 ] || HEED_HARDENED=ON bash tests/faults/hardening.sh "$build/portable/heed" >&2

# The archive: the program and every library that is not glibc's, which must be the system's.
name=heed-$version-linux-$machine
folder=$work/$name
install -D "$build/portable/heed" "$folder/bin/heed"
"${prefix}strip" "$folder/bin/heed"
mkdir -p "$folder/lib/heed/licenses"
loader=$(readelf -l "$build/portable/heed" | sed -nE 's/.*program interpreter: (.*)\]/\1/p')
"${emulator[@]}" "$loader" --list "$build/portable/heed" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' >"$work/libraries"
[ -s "$work/libraries" ] || { echo "package.sh: the libraries of the program cannot be listed" >&2; exit 1; }
while read -r library path; do
  case $library in libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so* | ld-linux*) continue ;; esac
  path=$(readlink -f "$path")
  install -m644 "$path" "$folder/lib/heed/$library"
  package=$(dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}")
  package=${package%%:*}
  cp "/usr/share/doc/$package/copyright" "$folder/lib/heed/licenses/$package"
done <"$work/libraries"
run=("${emulator[@]}" "$folder/bin/heed")
"${run[@]}" manual --lang en -o "$folder/share/man/man1"
"${run[@]}" manual --lang ko -o "$folder/share/man/ko/man1"
install -d "$folder/share/bash-completion/completions" "$folder/share/zsh/site-functions" "$folder/share/fish/vendor_completions.d"
"${run[@]}" completion bash >"$folder/share/bash-completion/completions/heed"
"${run[@]}" completion zsh >"$folder/share/zsh/site-functions/_heed"
"${run[@]}" completion fish >"$folder/share/fish/vendor_completions.d/heed.fish"
cp LICENSE README.md README.ko.md "$folder"
# What it is made of; ldd asks the loader of this machine.
[ ${#emulator[@]} -gt 0 ] || bash tools/sbom.sh "$build/portable/heed" "$folder/bin/heed" >"$folder/share/heed.spdx.json"
tar -C "$work" --owner=0 --group=0 --sort=name --mtime="@$SOURCE_DATE_EPOCH" -c "$name" | gzip -9n >"$dist/$name.tar.gz"
