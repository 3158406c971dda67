#!/usr/bin/env bash
# ./dev test soak: ten minutes (or HEED_SOAK_SECONDS) of hostile and honest clients.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../clients/with_server.sh"
command -v python3 >/dev/null || skip "no python3"
start_server
python3 "$here/soak.py" "$port" "$server" "${HEED_SOAK_SECONDS:-600}"
