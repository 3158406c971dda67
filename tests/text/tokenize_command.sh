#!/usr/bin/env bash
# The contract of `heed tokenize`: ids, JSON, decoding, training, exit codes.
set -euo pipefail
heed=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }
expect() { [ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"; }

for i in $(seq 200); do echo "the animal did not cross the street because it was tired 동물은 길을"; done > "$work/text"
"$heed" tokenize --train bpe:300 --data "$work/text" -o "$work/bpe" --quiet
[ -f "$work/bpe/tokenizer.json" ] && [ -f "$work/bpe/tokenizer_config.json" ] || fail "no files"
"$heed" tokenize --train wordpiece:120 --data "$work/text" -o "$work/wp/tokenizer.json" --quiet

# one line of ids a line, empty lines too, with CRLF, NUL and bad UTF-8 kept
printf 'the street\n\n동물은 \xff\x00 x\r\nlast' > "$work/in"
"$heed" tokenize "$work/bpe" < "$work/in" > "$work/ids"
expect "lines" "$(wc -l < "$work/ids")" 4
"$heed" tokenize "$work/bpe" --decode < "$work/ids" > "$work/out"
printf '\n' >> "$work/in"
cmp "$work/in" "$work/out" || fail "round trip"

# special tokens on and off
first=$(echo "the street" | "$heed" tokenize "$work/wp" | cut -d' ' -f1)
expect "[CLS]" "$first" 2
bare=$(echo "the street" | "$heed" tokenize "$work/wp" --no-special-tokens)
expect "special tokens" "$(echo "the street" | "$heed" tokenize "$work/wp")" "2 $bare 3"

# JSON: ids, tokens and offsets in bytes
json=$(echo "the 길을" | "$heed" tokenize "$work/wp" --no-special-tokens --json)
case $json in
  '{"ids":['*'],"tokens":['*'],"offsets":[['*']]}') ;;
  *) fail "json: $json" ;;
esac
case $json in *',10]]}') ;; *) fail "offsets end at byte 10: $json" ;; esac

code() { set +e; "$@" > /dev/null 2>"$work/err" < /dev/null; echo $?; set -e; }
expect "no file" "$(code "$heed" tokenize)" 2
expect "unknown flag" "$(code "$heed" tokenize "$work/bpe" --nonsense)" 2
expect "absent" "$(code "$heed" tokenize "$work/absent.json")" 3
expect "device" "$(code "$heed" tokenize /dev/zero)" 3
expect "bad kind" "$(code "$heed" tokenize --train bpe:x --data "$work/text" -o "$work/y")" 2
expect "unwritable" "$(code "$heed" tokenize --train char --data "$work/text" -o /proc/nowhere/y)" 1
set +e
echo "99999999" | "$heed" tokenize "$work/bpe" --decode > /dev/null 2>&1
expect "id out of range" "$?" 3
echo "12 abc" | "$heed" tokenize "$work/bpe" --decode > /dev/null 2>&1
expect "no id" "$?" 3
long=$(head -c 100000 /dev/zero | tr '\0' x)
for line in "1.5" "12 1x, 3" "$long"; do
  echo "$line" | "$heed" tokenize "$work/bpe" --decode > /dev/null 2> "$work/err"
  expect "no id" "$?" 3
  cat "$work/err" >> "$work/errors"
done
set -e
expect "what is no id" "$(tr '\n' '|' < "$work/errors")" \
  "heed: stdin: '1.5' is not an id|heed: stdin: '1x' is not an id|heed: stdin: '$(head -c 40 <<< "$long")…' is not an id|"
