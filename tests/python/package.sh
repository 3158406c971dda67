#!/usr/bin/env bash
# package.sh HEED SOURCE: makes the wheel from what was built, installs it and runs the package's tests.
# Skipped where PyPI cannot be reached. HEED_PYTHON names a Python environment that has PyTorch and the
# rest already; without it the comparisons with PyTorch are skipped.
set -euo pipefail
heed=$1 source=$2
build=$(dirname "$heed")
source "$source/tests/python/environment.bash"
python_environment "$build"
installed_wheel "$heed" "$source"
bytes=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $((bytes / 1000)) kB"
# Wheels for others are made on Debian 12. Libraries of Debian 13 are larger: libopus alone has 2.7 MB of
# networks more.
limit=10
case $wheel in *manylinux_2_3[0-7]_*) ;; *) limit=14 ;; esac
((bytes < limit * 1000000)) || { echo "the wheel has more than $limit MB"; exit 1; }
cd "$venv"
env -u PYTHONPATH HEED_PROGRAM="$heed" bin/python -m pytest -q "$source/python/tests" -p no:cacheprovider --durations 5
