#!/usr/bin/env bash
# Completion and manual pages: bash really completes, the other shells accept their scripts where
# they are installed, every page is clean roff, every --help has its parts.
set -u
heed=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "FAILED: $*"; failed=1; }

for shell in bash zsh fish; do
  "$heed" completion $shell >"$work/heed.$shell" || { complain "heed completion $shell"; exit 1; }
done

mkdir "$work/folder"
touch "$work/folder/a model.gguf" "$work/folder/b.txt"
# What Tab offers after the words; the last one is being typed.
offers() {
  (cd "$work/folder" && bash --norc -c '
    source "$1"; shift
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _heed
    printf "%s\n" "${COMPREPLY[@]}"' _ "$work/heed.bash" "$@")
}
expect_offer() { # wanted words, then the command line
  local wanted=$1
  shift
  local got
  got=$(offers "$@" | sort | tr '\n' '|')
  [ "$got" = "$wanted" ] || complain "Tab after '$*' offers '$got', wanted '$wanted'"
}
bash -n "$work/heed.bash" || complain "bash does not read its script"
bash --norc -c 'source "$1"; complete -p heed' _ "$work/heed.bash" | grep -q -- '-F _heed heed' || complain "bash knows no completion of heed"
expect_offer "tokenize|train|transcribe|translate|" heed t
expect_offer "generate|" heed gen
expect_offer "--max-tokens|" heed generate --max
expect_offer "cosine|" heed train --schedule cos
expect_offer "cosine|" heed train --schedule = cos
expect_offer "constant|cosine|inverse-sqrt|linear|" heed train --schedule =
expect_offer "a model.gguf|" heed info a
expect_offer "a model.gguf|b.txt|" heed train --data ""
expect_offer "|" heed generate a --prompt "x"
expect_offer "bash|fish|zsh|" heed completion ""
expect_offer "--json|" heed info a --j
expect_offer "|" heed nonsense ""

# Every option of every command's --help is offered.
for command in $("$heed" --help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
  "$heed" "$command" --help >"$work/help" || complain "heed $command --help"
  for option in $(sed -nE 's/^  (-[a-z], )?(--[a-z-]+).*/\2/p' "$work/help"); do
    offers heed "$command" "$option" | grep -qxF -- "$option" || complain "bash does not offer $command $option"
    grep -qF -- "${option#--}" "$work/heed.fish" || complain "fish does not know $option"
    grep -qF -- "$option" "$work/heed.zsh" || complain "zsh does not know $option"
  done
  [ "$(sed -n '/^Examples:/,$p' "$work/help" | grep -c '^  ')" -ge 2 ] || complain "heed $command --help has no two examples"
  [ -n "$(sed -n 1p "$work/help")" ] && [ -z "$(sed -n 2p "$work/help")" ] || complain "heed $command --help does not begin with one line"
done

for shell in zsh fish; do
  if command -v $shell >/dev/null; then
    $shell -n "$work/heed.$shell" || complain "$shell does not read its script"
  else
    echo "$shell is not installed: its script was not parsed"
  fi
done

"$heed" manual -o "$work/man1" || complain "heed manual"
[ -f "$work/man1/heed.1" ] && [ -f "$work/man1/heed-train.1" ] || complain "the manual pages are not there"
for page in "$work"/man1/*.1; do
  if command -v man >/dev/null && command -v groff >/dev/null; then
    warnings=$(LC_ALL=C.UTF-8 MANWIDTH=90 man --warnings -l "$page" 2>&1 >"$work/text")
    [ -z "$warnings" ] || complain "man warns about $(basename "$page"): $(head -3 <<<"$warnings")"
    [ -s "$work/text" ] || complain "man shows nothing of $(basename "$page")"
  fi
  if command -v mandoc >/dev/null; then
    warnings=$(mandoc -T lint -W warning "$page" | grep -v 'missing date' || true)
    [ -z "$warnings" ] || complain "mandoc warns about $(basename "$page"): $(head -3 <<<"$warnings")"
  fi
done
command -v man >/dev/null || echo "man is not installed: the pages were not checked"
exit $failed
