# The relocatable archive, unpacked by a user into any folder of a minimal root.
try_archive() {
  local other needed
  other=$(new_root "$release" "archive-$1" "$1")
  cp "$2" "$other/tmp"
  inside --offline "$other" minsu /home/minsu bash -c 'mkdir "어떤 폴더" && tar -C "어떤 폴더" --strip-components=1 -xzf /tmp/heed-*.tar.gz'
  needed=$(cat "$other/home/minsu/어떤 폴더/bin/heed" "$other/home/minsu/어떤 폴더"/lib/heed/*.so* | grep -aoE 'GLIBC_2\.[0-9]+' | sort -Vu | tail -1)
  [ "$(printf '%s\n' GLIBC_2.36 "$needed" | sort -V | tail -1)" = GLIBC_2.36 ] || fail "needs $needed"
  seconds_of inside --offline "$other" minsu "/home/minsu/어떤 폴더" bin/heed quickstart --json --out /home/minsu/q >"$work/answer"
  taught "$work/answer"
  echo "note: $1: $(du -h --apparent-size "$2" | cut -f1), heed quickstart took $seconds s, needs $needed"
}
each_package "heed-*-linux-ARCH.tar.gz" try_archive
