#!/usr/bin/env bash
# free_threaded.sh HEED SOURCE: a wheel for a Python without the GIL, installed there, and the package's tests with threads
# that really run at once. A module that switches the GIL on again fails. Skipped where there is no such Python, or no PyPI.
set -euo pipefail
heed=$1 source=$2
build=$(dirname "$heed")
source "$source/tests/python/environment.bash"
python_environment "$build" free-threaded
installed_wheel "$heed" "$source"
bytes=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $((bytes / 1000)) kB"
case $wheel in *-cp3??-cp3??t-manylinux*) ;; *) echo "the wheel is not tagged for a free-threaded Python"; exit 1 ;; esac
cd "$venv"
env -u PYTHONPATH HEED_PROGRAM="$heed" bin/python -W error::RuntimeWarning -m pytest -q "$source/python/tests" -p no:cacheprovider --durations 5
