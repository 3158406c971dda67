#!/usr/bin/env bash
# notebook.sh HEED SOURCE: a lesson in JupyterLab, in headless Chromium: the picture of attention answers
# to the mouse. Skipped where PyPI, Node.js' Playwright or its browser cannot be had.
set -euo pipefail
heed=$1 source=$2
build=$(dirname "$heed")
source "$source/tests/python/environment.bash"
python_environment "$build"
[ -e "$venv/bin/jupyter-lab" ] || "$venv/bin/pip" install -q jupyterlab >/dev/null 2>&1 || { echo "skipped: JupyterLab cannot be had"; exit 77; }
installed_wheel "$heed" "$source"
source "$source/tests/browser/npm.bash"
export HEED_VENV=$venv HEED_SOURCE=$source
node "$source/tests/python/jupyter.mjs"
