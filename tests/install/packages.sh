#!/usr/bin/env bash
# tools/packages.txt is the whole truth: each package stands in one row; what the program and the shared
# library link is what it names for `run`; of each library for `build` a header is included; and whatever
# the scripts call comes with every Debian or stands in its column of commands.
set -euo pipefail
build=$(cd "$(dirname "$1")" && pwd)
cd "$2"
source tools/packages.bash
bad=0
complain() { echo "FAILED: $*"; bad=1; }
skip() { echo "skipped: $*"; exit 77; }
command -v dpkg-query >/dev/null || skip "packages are compared on Debian only"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

groups=(build test bench lint clang fuzz docs web browser python coverage fresh package run optional)

# Rows: known words, and one row for each package.
awk -v group="$(IFS='|' && echo "${groups[*]}")" '{ sub(/#.*/, "") } NF && ($1 !~ "^(" group ")(,(" group "))*$" || $3 !~ /^(\*|-?[0-9]+|[0-9]+-)$/)' tools/packages.txt >"$work/odd"
[ ! -s "$work/odd" ] || complain "rows that cannot be read: $(cat "$work/odd")"
twice=$(awk '{ sub(/#.*/, "") } NF { print $2 }' tools/packages.txt | sort | uniq -d)
[ -z "$twice" ] || complain "more than one row for" $twice

# package_of FILE: dpkg knows it by the path it was installed under, before or after /usr was merged.
package_of() {
  local real
  real=$(readlink -f "$1")
  dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || dpkg-query -S "/usr$real" 2>/dev/null || true
}

# What is linked directly; what these libraries link in turn is their packages' affair.
for file in "$build/heed" "$build/lib/libheed.so"; do
  [ -e "$file" ] || continue
  for library in $(readelf -d "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'); do
    path=$(ldd "$file" | awk -v name="$library" '$1 == name { print $3 }')
    case $library in ld-linux*) continue ;; esac
    package=$(package_of "$path" | sed -E 's/:.*//' | head -1)
    [ -n "$package" ] || { complain "$file links $library ($path), which no package owns"; continue; }
    echo "$package"
  done
done | sort -u >"$work/linked"
grep '^FAILED' "$work/linked" && bad=1
table_of 2 run >"$work/run"
diff "$work/run" "$work/linked" >"$work/diff" || complain "what is linked (>) is not what tools/packages.txt names for run (<): $(grep '^[<>]' "$work/diff" | tr '\n' ' ')"

# What the compiler read, as Ninja keeps it. A package may be the name of the current version's package, such as
# libboost-dev; libprotobuf-dev is there for its pkg-config file alone.
ninja -C "$build" -t deps 2>/dev/null | grep -oE '/usr/(include|lib)/.*' | sort -u >"$work/headers" || true
if [ -s "$work/headers" ]; then
  for package in $(table_of 2 build | grep -E -- '-dev$' | grep -vx libprotobuf-dev); do
    base=${package%-dev}
    version=$(dpkg-query -W -f '${Depends}' "$package" | tr ', ' '\n\n' | grep -xE "$base[0-9.]+-dev" || true)
    dpkg-query -L "$package" $version | grep -xFf "$work/headers" >"$work/included" || complain "no file includes a header of $package, which is a row for build"
  done
fi

# Words of scripts in a command's place that are programs here. Everything Debian calls essential or
# required is on every machine.
mapfile -t scripts < <(find tools tests examples \( -name '*.sh' -o -name '*.bash' \) -type f)
scripts+=(dev .ci/run)
sed -E '/^ *#/d' "${scripts[@]}" |
  grep -oP '(^|[|;&({!]|\$\(|\b(then|do|else|exec|env|xargs|sudo)\b) *\K[a-z][a-z0-9_.+-]*(?=$| (?!=|in\b|\+))' |
  sort -u >"$work/words"
dpkg-query -W -f='${Package} ${Essential} ${Priority}\n' | awk '$2 == "yes" || $3 == "required" { print $1 }' | sort >"$work/base"
table_of 4 "${groups[@]}" >"$work/commands"
while read -r word; do
  [ "$(type -t "$word")" = file ] || continue
  grep -qxF -- "$word" "$work/commands" && continue
  owner=$(package_of "$(command -v "$word")" | sed -E 's/:.*//' | head -1)
  [ -n "$owner" ] || continue # a program of this machine's own, not a package's
  grep -qx "$owner" "$work/base" || complain "a script calls $word, which comes from $owner and is in no row of tools/packages.txt"
done <"$work/words"

# And the commands that rows name are there once their packages are.
for group in build test; do
  for word in $(table_of 4 $group); do
    command -v "$word" >/dev/null || complain "$group: no package of the table brought $word"
  done
done
[ "$bad" -eq 0 ] && echo "$(wc -l <"$work/linked") packages linked, $(wc -l <"$work/words") words of scripts looked at"
exit "$bad"
