#!/usr/bin/env bash
# The first five minutes on a fresh Debian: a debootstrap root with nothing but git, a clone with an
# empty build folder, ./dev quickstart. Takes several minutes and the network, so it runs only with
# HEED_DEBOOTSTRAP=1. HEED_DEBOOTSTRAP_CACHE names a folder that keeps the bare root between runs.
set -eu
source=$2
skip() { echo "skipped: $*"; exit 77; }
[ "${HEED_DEBOOTSTRAP:-}" = 1 ] || skip "set HEED_DEBOOTSTRAP=1 to build and run in a fresh Debian"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
[ "$(id -u)" = 0 ] || skip "debootstrap and chroot need root"
unshare --mount true 2>/dev/null || skip "no mount namespaces here"
[ -d "$source/.git" ] || [ -f "$source/.git" ] || skip "the source is no git checkout"

work=$(mktemp -d)
# The root is mounted on only inside the namespace below, so that it can be deleted safely.
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
bare=${HEED_DEBOOTSTRAP_CACHE:-$work/bare}
if [ ! -d "$bare/usr" ]; then
  debootstrap --variant=minbase --include=git,ca-certificates bookworm "$bare" >"$work/log" 2>&1 || { tail -5 "$work/log"; skip "debootstrap could not make a root (no network?)"; }
fi
cp -a "$bare" "$root"
git clone -q --no-hardlinks "$source" "$root/heed"
cp /etc/resolv.conf "$root/etc/resolv.conf"
[ -d /etc/apt/apt.conf.d ] && cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true

start=$SECONDS
unshare --mount --pid --fork bash -c '
  mount --make-rprivate /
  mount -t proc proc "$1/proc"
  mount --rbind /dev "$1/dev"
  exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
    bash -c "cd /heed && ./dev quickstart --json"' _ "$root" >"$work/result" 2>"$work/log" || { tail -30 "$work/log"; echo "FAILED: ./dev quickstart in a fresh Debian"; exit 1; }
seconds=$((SECONDS - start))
tail -1 "$work/result"
accuracy=$(sed -nE 's/.*"accuracy":([0-9.]+),"pointing.*/\1/p' "$work/result" | tail -1)
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a >= 0.98) }' || { echo "FAILED: accuracy $accuracy"; exit 1; }
echo "a fresh Debian took $seconds s, packages included"
