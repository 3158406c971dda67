# Debian's packages in minimal roots without compiler: heed quickstart from the installed program,
# without a source tree, manual pages in both languages, the server's unit; lintian without errors.
(cd "$source/dist" && sha256sum -c SHA256SUMS)
try_package() {
  local other
  lintian --fail-on error --no-tag-display-limit "$2"
  other=$(new_root "$release" "deb-$1" "$1")
  cp "$2" "$other/tmp"
  inside "$other" root /tmp bash -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ./heed_*.deb man-db locales >/dev/null'
  ! inside "$other" root / bash -c 'command -v gcc g++ cc cmake' || fail "the package brought a compiler"
  seconds_of inside --offline "$other" minsu /home/minsu heed quickstart --json >"$work/answer"
  taught "$work/answer"
  echo "note: $1: $(du -h --apparent-size "$2" | cut -f1), heed quickstart took $seconds s"
  for file in man/man1/heed.1.gz man/man1/heed-train.1.gz man/ko/man1/heed.1.gz bash-completion/completions/heed \
    zsh/site-functions/_heed fish/vendor_completions.d/heed.fish doc/heed/copyright; do
    [ -s "$other/usr/share/$file" ] || fail "/usr/share/$file is not there"
  done
  inside "$other" minsu / man heed-train >"$work/page"
  grep -q OPTIONS "$work/page" || fail "man heed-train: $(head -3 "$work/page")"
  inside "$other" root / localedef -i ko_KR -f UTF-8 ko_KR.UTF-8
  inside "$other" minsu / env LANG=ko_KR.UTF-8 man heed-train >"$work/page"
  grep -q 옵션 "$work/page" || fail "man heed-train in Korean: $(head -3 "$work/page")"
  inside "$other" minsu / bash -c 'source /usr/share/bash-completion/completions/heed && complete -p heed' || fail "no completion"
  grep -q '^ExecStart=/usr/bin/heed serve ' "$other/usr/lib/systemd/system/heed.service" || fail "the server's unit"
  inside "$other" root / apt-get purge -y -qq heed >/dev/null
  [ ! -e "$other/usr/bin/heed" ] || fail "the program stays after it was removed"
}
each_package "heed_*+deb${release}_ARCH.deb" try_package
