#!/usr/bin/env bash
# The official Node client against the real server. Skips where npm cannot be reached.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/clients/with_server.sh"
command -v npm >/dev/null || skip "no npm"
folder=$(dirname "$heed")/node-openai
mkdir -p "$folder"
if [ ! -d "$folder/node_modules/openai" ]; then
  (cd "$folder" && npm install --silent --no-audit --no-fund openai >/dev/null 2>&1) || skip "openai cannot be had from npm"
fi
cp "$here/clients/openai_client.mjs" "$folder/"
start_server
(cd "$folder" && node openai_client.mjs "http://127.0.0.1:$port/v1")
