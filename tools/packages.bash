# Reads tools/packages.txt; sourced by ./dev and by tests. Paths are relative to the source folder.

# The number of this Debian. What has none (testing, other distributions) counts as newer than all.
debian_release() {
  (
    . /etc/os-release 2>/dev/null || true
    if [ "${ID:-}" = debian ] && [[ ${VERSION_ID:-} =~ ^[0-9]+$ ]]; then echo "$VERSION_ID"; else echo 99; fi
  )
}

# table_of COLUMN GROUP…: the packages (2) or the commands (4) of the rows for any of these groups, for
# release $HEED_RELEASE or this Debian's.
table_of() {
  local column=$1
  shift
  awk -v groups=" $* " -v release="${HEED_RELEASE:-$(debian_release)}" -v column="$column" '
    { sub(/#.*/, "") }
    NF < 3 { next }
    { wanted = 0; count = split($1, users, ","); for (i = 1; i <= count; ++i) wanted += index(groups, " " users[i] " ") > 0 }
    !wanted { next }
    $3 ~ /^[0-9]+$/ && release != $3 { next }
    $3 ~ /^-/ && release + 0 > substr($3, 2) + 0 { next }
    $3 ~ /-$/ && release + 0 < $3 + 0 { next }
    column == 2 { print $2 }
    column == 4 { for (i = 4; i <= NF; ++i) print $i }' tools/packages.txt | LC_ALL=C sort -u
}

# missing_packages GROUP…: those that are not installed.
missing_packages() {
  command -v dpkg-query >/dev/null || return 0 # another system: CMake says what it cannot find
  LC_ALL=C comm -23 <(table_of 2 "$@") \
    <(table_of 2 "$@" | xargs -r dpkg-query -W -f='${Package} ${Status}\n' 2>/dev/null | sed -n 's/ install ok installed$//p' | LC_ALL=C sort -u)
}
