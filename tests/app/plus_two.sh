#!/usr/bin/env bash
# Lesson 8 from the command line: the commands of its page, and the trained model answers as exactly as the page promises.
set -euo pipefail
heed=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache LC_ALL=C.UTF-8
commands() { grep -oE '`heed [^`]+`' "$source"/docs/tutorial/"$1"/08-*.md | tr -d '`'; }
[ "$(commands en)" = "$(commands ko)" ] || { echo "FAILED: the Korean page has other commands"; exit 1; }
promise=$(grep -oE 'within [0-9.]+' "$source"/docs/tutorial/en/08-*.md | cut -d' ' -f2)
grep -q "값에서 $promise 이내" "$source"/docs/tutorial/ko/08-*.md || { echo "FAILED: the Korean page does not promise $promise"; exit 1; }
heed() { "$heed" "$@"; }
export -f heed
export heed
cd "$work"
printf '1,2,3,4,5\n60,70,80,90,95\n0,0,0,0,0\n100,3,50,20,99\n' >rows.csv
while IFS= read -r command; do
  bash -c "$command" >out 2>err || { echo "FAILED: $command"; tail -3 err; exit 1; }
  case $command in
    "heed predict "*"rows.csv") cp rows.csv asked ;;
    "heed predict "*) sed 's/^heed predict run //; s/ /,/g' <<<"$command" >asked ;;
    *) continue ;;
  esac
  paste -d, asked <(tr ' ' ',' <out) | awk -F, -v promise="$promise" -v command="$command" '
    NF != 10 { print "FAILED: " command ": " $0; bad = 1 }
    { for (i = 1; i <= 5; i++) if (($i + 2 - $(i + 5)) ^ 2 > promise ^ 2) { print "FAILED: " $i " + 2 became " $(i + 5); bad = 1 } }
    END { exit bad || NR == 0 }'
done < <(commands en)
cmp -s rows.csv asked || { echo "FAILED: the page does not ask rows"; exit 1; }
echo passed
