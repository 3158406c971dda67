#!/usr/bin/env bash
# package.sh HEED SOURCE: builds the Python package against what was built, and runs its tests. Skipped
# where PyPI cannot be reached.
set -euo pipefail
heed=$1 source=$2
build=$(dirname "$heed")
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "skipped: Python 3.10 or newer is needed"; exit 77; }
folder=$build/python-package
if [ ! -e "$folder/ready" ]; then
  python3 -m venv "$folder" >/dev/null 2>&1 || { echo "skipped: no python3-venv"; exit 77; }
  "$folder/bin/pip" install -q numpy pytest nanobind scikit-build-core mypy >/dev/null 2>&1 || { echo "skipped: PyPI cannot be reached"; exit 77; }
  touch "$folder/ready"
fi
# Copies what is built: nothing is compiled twice.
exec 9>"$build/install.lock"
flock 9
cmake --install "$build" --prefix "$folder/heed" >"$folder/install.log" 2>&1 || { cat "$folder/install.log"; exit 1; }
"$folder/bin/pip" install -q --no-build-isolation --force-reinstall --no-deps "$source/python" \
  -C cmake.define.HEED_PREFIX="$folder/heed" -C build-dir="$folder/build" >"$folder/pip.log" 2>&1 || { tail -40 "$folder/pip.log"; exit 1; }
flock -u 9
cd "$folder"
bin/python -m pytest -q "$source/python/tests" -p no:cacheprovider
bin/python -m doctest "$source"/python/heed/__init__.py 2>/dev/null || bin/python -c 'import doctest, heed; f, _ = doctest.testmod(heed); raise SystemExit(f)'
