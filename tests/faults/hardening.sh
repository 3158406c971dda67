#!/usr/bin/env bash
# The program is position-independent, its symbol table read-only, its stack not executable, and the loader
# looks for libraries in no folder that somebody else may choose.
set -u
heed=$1
command -v readelf >/dev/null || { echo "skipped: readelf is not installed (package binutils)"; exit 77; }
failed=0
wrong() { echo "wrong: $*"; failed=1; }
readelf -hW "$heed" | grep -q 'Type:.*DYN' || wrong "not position-independent"
readelf -lW "$heed" | grep -q GNU_RELRO || wrong "no RELRO segment"
readelf -dW "$heed" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || wrong "symbols are bound late"
readelf -lW "$heed" | grep 'GNU_STACK' | grep -q 'RWE' && wrong "an executable stack"
path=$(readelf -dW "$heed" | sed -nE 's/.*(RUNPATH|RPATH).*\[(.*)\]/\2/p')
case ":$path:" in
  ::) ;;
  *::* | *:.:* | *:./*) wrong "the run path '$path' has the current folder in it" ;;
esac
# A library of the same name in the current folder must not be loaded.
if command -v c++ >/dev/null; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  printf '#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(99); }\n' >"$folder/f.c"
  for library in $(readelf -dW "$heed" | sed -nE 's/.*NEEDED.*\[(lib(png|fmt|z|jpeg).*)\]/\1/p'); do
    c++ -x c -shared -fPIC "$folder/f.c" -o "$folder/$library" || exit 1
  done
  (cd "$folder" && "$heed" --version >/dev/null) || wrong "a library of the current folder was loaded"
fi
exit $failed
