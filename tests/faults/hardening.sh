#!/usr/bin/env bash
# The program is position-independent, its symbol table read-only, its stack not executable, and the loader
# looks for libraries in no folder that somebody else may choose. HEED_HARDENED=ON (tools/package.sh) demands what
# packages are compiled with, too: stack protector, checked library calls and control-flow protection.
set -u
heed=$(realpath "$1")
command -v readelf >/dev/null || { echo "skipped: readelf is not installed (package binutils)"; exit 77; }
failed=0
wrong() { echo "wrong: $*"; failed=1; }
readelf -hW "$heed" | grep -q 'Type:.*DYN' || wrong "not position-independent"
readelf -lW "$heed" | grep -q GNU_RELRO || wrong "no RELRO segment"
readelf -dW "$heed" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || wrong "symbols are bound late"
readelf -lW "$heed" | grep 'GNU_STACK' | grep -q 'RWE' && wrong "an executable stack"
if [ "${HEED_HARDENED:-OFF}" = ON ]; then
  symbols=$(readelf --dyn-syms -W "$heed")
  grep -q '__stack_chk_fail' <<<"$symbols" || wrong "no stack protector"
  grep -qE '__[a-z]+_chk@' <<<"$symbols" || wrong "no checked library calls (_FORTIFY_SOURCE)"
  # The note about control-flow protection needs start files that have it, which Debian's do not: look at the code.
  case $(readelf -hW "$heed" | sed -n 's/ *Machine: *//p') in
    *X86-64) [ "$(LC_ALL=C grep -aoP '\xf3\x0f\x1e\xfa' "$heed" | wc -l)" -gt 1000 ] || wrong "no landing pads of control-flow protection (endbr64)" ;;
    AArch64) [ "$(LC_ALL=C grep -aoP '\x3f\x23\x03\xd5' "$heed" | wc -l)" -gt 1000 ] || wrong "return addresses are not signed (paciasp)" ;;
  esac
fi
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
