#!/usr/bin/env bash
# The official Python client against the real server. Skips where PyPI cannot be reached.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/clients/with_server.sh"
command -v python3 >/dev/null || skip "no python3"
environment=$(dirname "$heed")/python-openai
if ! "$environment/bin/python" -c 'import openai' 2>/dev/null; then
  python3 -m venv "$environment" >/dev/null 2>&1 || skip "no python3-venv"
  "$environment/bin/pip" install -q openai >/dev/null 2>&1 || skip "openai cannot be had from PyPI"
fi
start_server
"$environment/bin/python" "$here/clients/openai_client.py" "http://127.0.0.1:$port/v1"
