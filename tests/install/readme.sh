#!/usr/bin/env bash
# README.md and README.ko.md keep their word: `sh` blocks are run as they stand, in order, in a
# scratch copy; the `cpp` block is built with the `cmake` block against an installed heed and run in
# the same place; links lead somewhere; both languages have the same parts.
set -eu
build=$(cd "$(dirname "$1")" && pwd)
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

blocks() { # language, file: the text of its blocks
  awk -v wanted="$1" '/^```/ { inside = inside ? 0 : substr($0, 4) == wanted ? 1 : 2; next } inside == 1' "$2"
}
parts() { # what both languages must have the same number of, in the same order
  awk '/^```/ { fence = !fence; if (fence) print; next }
       fence { next }
       /^#+ / { print substr($0, 1, index($0, " ") - 1); next }
       /^\|/ { print "row"; next }
       /^- / { print "item"; next }
       /^!\[/ { sub(/.*\(/, ""); sub(/\.ko\./, "."); print }' "$1"
}

exec 9>"$build/install.lock" # tests run side by side; installing writes to the build folder
flock 9
cmake --build "$build" --target heed_program heed_shared heed_static heed_lessons_shared heed_lessons_static >"$work/log" 2>&1 || { tail -30 "$work/log"; fail "building the libraries"; }
cmake --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || { tail -30 "$work/log"; fail "cmake --install"; }
flock -u 9
export XDG_CACHE_HOME=$work/cache

for file in README.md README.ko.md; do
  others=$(grep -E '^```.' "$source/$file" | grep -vxE '```(sh|console|cpp|cmake)' || true)
  [ -z "$others" ] || fail "$file has blocks that are neither sh, cpp, cmake nor console: $others"
  blocks console "$source/$file" | grep -vE '^\$ ' && fail "$file: a console block has lines without \$"
  for link in $(grep -oE '\]\([^)#]+' "$source/$file" | cut -c3- | grep -vE '^https?:'); do
    [ -e "$source/$link" ] || fail "$file: the link $link leads nowhere"
  done

  # In 30 seconds: what it is in two paragraphs at most, a picture that moves, few commands, five figures.
  picture=$(grep -m1 -oE '\]\([^)]+\.svg\)' "$source/$file" | sed -E 's/^\]\(|\)$//g')
  [ "$(grep -n -m1 -F "$picture" "$source/$file" | cut -d: -f1)" -le 6 ] && grep -q '@keyframes' "$source/$picture" || fail "$file does not begin with a picture that moves"
  [ "$(awk '/^```console/ { on = 1; next } /^```/ && on { exit } on' "$source/$file" | wc -l)" -le 4 ] || fail "$file begins with more than four commands"
  [ "$(grep -cE '^\|.*`\./dev bench (peers|serve) ' "$source/$file")" -eq 5 ] || fail "$file does not have five figures with their commands"

  scratch=$work/$file.d
  mkdir "$scratch"
  cp "$source"/README*.md "$scratch"
  ln -s "$build" "$scratch/build"
  blocks sh "$source/$file" >"$work/script"
  [ -s "$work/script" ] || fail "$file has no sh block"
  (cd "$scratch" && bash -eux "$work/script") >"$work/log" 2>&1 || { tail -30 "$work/log"; fail "the commands of $file"; }

  mkdir "$work/$file.cpp"
  blocks cpp "$source/$file" >"$work/$file.cpp/main.cc"
  lines=$(grep -c . "$work/$file.cpp/main.cc") || fail "$file has no cpp block"
  [ "$lines" -le 25 ] || fail "the C++ example of $file has $lines lines"
  {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(yours LANGUAGES CXX)\nadd_executable(yours main.cc)\n'
    blocks cmake "$source/$file"
  } >"$work/$file.cpp/CMakeLists.txt"
  if ! cmake -S "$work/$file.cpp" -B "$work/$file.made" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || ! cmake --build "$work/$file.made" >>"$work/log" 2>&1; then
    tail -30 "$work/log"
    fail "building the example of $file"
  fi
  (cd "$scratch" && "$work/$file.made/yours") >"$work/out" 2>&1 || { cat "$work/out"; fail "running the example of $file"; }
  [ "$(wc -l <"$work/out")" -gt 5 ] || { cat "$work/out"; fail "the example of $file shows nothing"; }
done

diff <(parts "$source/README.md") <(parts "$source/README.ko.md") || fail "the two languages do not have the same parts"
echo "both READMEs' commands and examples ran"
