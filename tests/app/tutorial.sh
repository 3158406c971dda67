#!/usr/bin/env bash
# The lessons' pages: the same in English and Korean, their pictures and links are there, what they quote is what
# the programs are tested to print, and each ends in a command whose program exists.
set -euo pipefail
source=$2
cd "$source/docs/tutorial"
bad=0
patterns=$(mktemp)
trap 'rm -f "$patterns"' EXIT
complain() { echo "FAILED: $*"; bad=1; }

[ "$(cd en && ls)" = "$(cd ko && ls)" ] || complain "English and Korean have other pages"
[ "$(ls en/[0-9]*.md | wc -l)" -eq "$(ls "$source"/examples/*.cc | wc -l)" ] || complain "not one page per program"

# A line that may be printed: numbers after a decimal point, and ranges {LOW..HIGH}, stand for any number.
pattern() { sed -E 's/[][\\.^$*+?(){}|]/\\&/g; s/\\\{-?[0-9\\.]+\\\.\\\.-?[0-9\\.]+\\\}/ *-?[0-9.]+/g; s/-?[0-9]+\\\.[0-9]+/-?[0-9]+\\.[0-9]+/g; s/.*/^&$/' "$1"; }

for page in en/*.md ko/*.md; do
  while read -r target; do
    [ -e "$(dirname "$page")/$target" ] || complain "$page links to $target, which is not there"
  done < <(grep -oE '\]\([^)#]+\)' "$page" | sed -E 's/^\]\(|\)$//g' | grep -v '^http')
  case $page in */index.md) continue ;; esac
  number=$(basename "$page" | cut -c1-2)
  lesson=$(ls "$source/examples/$number"_*.cc)
  name=$(basename "$lesson" .cc)
  [ "$(wc -l < "$lesson")" -lt 100 ] || complain "$name has 100 lines or more"
  grep -q '!\[' "$page" || complain "$page has no picture"
  tail -n 3 "$page" | head -n 2 | tr '\n' ' ' | grep -q "^\`\`\`bash build/examples/$name" || complain "$page does not end in a command"
  [ "$(tail -n 1 "$page")" = '```' ] || complain "$page does not end in a command"
  expected=$source/examples/expected/$name.txt
  case $page in ko/*) expected=$source/examples/expected/ko/$name.txt ;; esac
  pattern "$expected" > "$patterns"
  while IFS= read -r line; do
    [ -z "$line" ] || grep -qE -f "$patterns" <<< "$line" || complain "$page quotes what $name does not print: $line"
  done < <(awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' "$page")
done
for number in $(ls en | cut -c1-2 | grep '[0-9]'); do
  [ "$(grep -oE '\.\./pictures/[^)]+' en/"$number"*.md | sort)" = "$(grep -oE '\.\./pictures/(ko/)?[^)]+' ko/"$number"*.md | sed 's,/ko/,/,; s,\.ko\.png,.png,' | sort)" ] ||
    complain "lesson $number has other pictures in English and Korean"
  [ "$(grep -c '^```' en/"$number"*.md)" = "$(grep -c '^```' ko/"$number"*.md)" ] || complain "lesson $number has other blocks in Korean"
done
[ "$bad" -eq 0 ] && echo passed
exit "$bad"
