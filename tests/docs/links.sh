#!/usr/bin/env bash
# Every link of the Markdown sources leads somewhere: to a file of the repository and, where it names one,
# to a heading. Pages that a document names in plain text (docs/…, src/…, tests/…) exist. Needs neither
# mkdocs nor Python; where the site has been built (./dev docs), its pages are checked, too.
set -euo pipefail
source=${2:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$source"
bad=0
complain() { echo "links: $*"; bad=1; }

# The text of a document without its code blocks.
prose() { awk '/^ *```/ { code = !code; next } !code' "$1"; }
# Anchors of a document's headings as GitHub and mkdocs make them.
anchors() {
  prose "$1" | sed -nE 's/^#+ +//p' | sed -E 's/`|\*|\[|\]|\([^)]*\)//g' | tr '[:upper:]' '[:lower:]' |
    sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

count=0
while IFS= read -r file; do
  folder=$(dirname "$file")
  while IFS= read -r target; do
    case $target in http://* | https://* | mailto:*) continue ;; esac
    count=$((count + 1))
    path=${target%%#*}
    anchor=
    case $target in *#*) anchor=${target#*#} ;; esac
    to=$file
    [ -z "$path" ] || to=$folder/$path
    [ -e "$to" ] || { complain "$file: $target leads nowhere"; continue; }
    if [ -n "$anchor" ] && ! anchors "$to" | grep -qxF -- "$anchor"; then
      complain "$file: $target names no heading"
    fi
  done < <(prose "$file" | grep -oE '\]\([^() ]+\)' | sed -E 's/^\]\(//; s/\)$//')

  # Names of files in plain text: a path below one of the top folders with an extension, or an ADR's.
  while IFS= read -r name; do
    case $name in */NAME.* | *NNNN*) continue ;; esac # a placeholder
    [ -e "$name" ] || [ -e "$folder/$name" ] || complain "$file names $name, which is not in the repository"
  done < <(prose "$file" | grep -oE '\b(python/tests|docs|src|include|apps|tests|tools|bench|fuzz|examples|cmake|web/src)/[A-Za-z0-9_./-]+\.(md|cc|h|sh|py|bash|txt|cmake|ts|svg|yml|yaml|mjs|conf)\b' | sort -u)
done < <(git ls-files '*.md' 2>/dev/null || find . -name '*.md' -not -path './build*')

# Documents that only the authors have.
private=$(git grep -nE '\b(HOUSE|PEERS|CONTRACT|STYLE|REVIEW|BRIEF|FAULTS|UX)\.md\b' -- . ':!tests/docs' ':!tools/check_words.sh' || true)
[ -z "$private" ] || complain "documents that are not in the repository: $private"
# Comments in sources that name a document.
while IFS=: read -r file _ name; do
  [ -e "$name" ] || complain "$file names $name, which is not in the repository"
done < <(git grep -noE 'docs/[A-Za-z0-9_./-]+\.md' -- '*.h' '*.cc' '*.sh' '*.bash' '*.py' '*.cmake' '*.ts' '*.txt' dev)

# Every public header that heed.h includes is in the reference.
for header in $(sed -nE 's/^#include "heed\/(.*)"$/\1/p' include/heed/heed.h | grep -vx version.h); do
  for page in docs/reference.md docs/reference.ko.md; do
    grep -qF "heed/$header)" "$page" || complain "$page lacks $header"
  done
done

# The built site: every local target of its pages.
if [ -d build/site ]; then
  while IFS= read -r page; do
    folder=$(dirname "$page")
    while IFS= read -r target; do
      case $target in http* | mailto:* | \#* | data:* | javascript:* | "." | "") continue ;; esac
      path=${target%%[#?]*}
      [ -z "$path" ] || [ -e "$folder/$path" ] || complain "$page: $target leads nowhere"
    done < <(grep -oE '(href|src)="[^"]+"' "$page" | sed -E 's/^[a-z]+="//; s/"$//' | sort -u)
  done < <(find build/site -name '*.html' -not -path 'build/site/api/*' -not -name 404.html)
fi
[ "$bad" -eq 0 ] || exit 1
echo "$count links lead somewhere"
