# Debian's packages in a root without compiler: heed quickstart from the installed program, without a
# source tree, and lintian without errors.
[ "$release" = "$(. "$source/tools/packages.bash" && debian_release)" ] || skip "the packages are for the release that built them"
(cd "$source/dist" && sha256sum -c SHA256SUMS)
lintian --fail-on error --no-tag-display-limit "$source"/dist/*.deb
cp "$source"/dist/heed_*.deb "$root/tmp"
inside "$root" root /tmp bash -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ./heed_*.deb >/dev/null'
! inside "$root" root / bash -c 'command -v gcc g++ cc cmake' || fail "the package brought a compiler"
seconds_of inside --offline "$root" minsu /home/minsu heed quickstart --json >"$work/answer"
taught "$work/answer"
echo "note: heed quickstart took $seconds s"
for file in /usr/share/man/man1/heed.1.gz /usr/share/bash-completion/completions/heed; do
  [ -s "$root$file" ] || fail "$file is not there"
done
inside "$root" root / apt-get purge -y -qq heed >/dev/null
[ ! -e "$root/usr/bin/heed" ] || fail "the program stays after it was removed"
