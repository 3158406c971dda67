#!/usr/bin/env bash
# package.sh BUILD DIST: Debian packages and the relocatable archive from a build folder, with their
# SHA-256 sums. ./dev package builds first and calls this.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 dist=$2
version=$(sed -nE 's/^#define HEED_VERSION_[A-Z]+ //p' include/heed/version.h | paste -sd.)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$dist"
mkdir -p "$dist"

cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
mv "$work"/cpack/*.deb "$dist"

# The archive: the program and every library that is not glibc's, which must be the system's.
name=heed-$version-linux-$(uname -m)
folder=$work/$name
install -D "$build/portable/heed" "$folder/bin/heed"
strip "$folder/bin/heed"
mkdir -p "$folder/lib/heed/licenses"
ldd "$build/portable/heed" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | while read -r library path; do
  case $library in libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | ld-linux*) continue ;; esac
  install -m644 "$(readlink -f "$path")" "$folder/lib/heed/$library"
  package=$(dpkg-query -S "$(readlink -f "$path")" 2>/dev/null || dpkg-query -S "$(readlink -f "$path" | sed 's,^/usr,,')")
  package=${package%%:*}
  cp "/usr/share/doc/$package/copyright" "$folder/lib/heed/licenses/$package"
done
"$folder/bin/heed" manual -o "$folder/share/man/man1"
install -d "$folder/share/bash-completion/completions" "$folder/share/zsh/site-functions" "$folder/share/fish/vendor_completions.d"
"$folder/bin/heed" completion bash >"$folder/share/bash-completion/completions/heed"
"$folder/bin/heed" completion zsh >"$folder/share/zsh/site-functions/_heed"
"$folder/bin/heed" completion fish >"$folder/share/fish/vendor_completions.d/heed.fish"
cp LICENSE README.md README.ko.md "$folder"
tar -C "$work" --owner=0 --group=0 --sort=name -czf "$dist/$name.tar.gz" "$name"
(cd "$dist" && sha256sum ./*.deb ./*.tar.gz | sed 's, \./, ,' >SHA256SUMS)
