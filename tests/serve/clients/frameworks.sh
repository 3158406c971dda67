#!/usr/bin/env bash
# ./dev test clients: LangChain (Python and JavaScript), LlamaIndex, LiteLLM and Continue's calls against
# the real server, and schemathesis against its /openapi.json. Says what could not be had.
# HEED_CLIENTS_VENV and HEED_CLIENTS_NODE name environments that are there already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/with_server.sh"
venv=${HEED_CLIENTS_VENV:-$(dirname "$heed")/python-clients}
node=${HEED_CLIENTS_NODE:-$(dirname "$heed")/node-clients}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv" >/dev/null 2>&1 || skip "no python3-venv"
  "$venv/bin/pip" install -q openai langchain-openai llama-index-llms-openai-like llama-index-embeddings-openai-like litellm schemathesis >&2 ||
    skip "the clients cannot be had from PyPI"
fi
if command -v npm >/dev/null && [ ! -d "$node/node_modules/@langchain/openai" ]; then
  mkdir -p "$node"
  (cd "$node" && npm install --silent --no-audit --no-fund @langchain/openai @langchain/core >&2) || echo "skipped: @langchain/openai cannot be had from npm"
fi
encoder=${HEED_SHARED:-}/minilm
models=()
[ ! -d "$encoder" ] || models=("minilm=$encoder")
start_server "${models[@]}"
LITELLM_LOCAL_MODEL_COST_MAP=True "$venv/bin/python" "$here/frameworks.py" "http://127.0.0.1:$port" ${models:+minilm}
if [ -d "$node/node_modules/@langchain/openai" ]; then
  cp "$here/langchain.mjs" "$node/"
  (cd "$node" && node langchain.mjs "http://127.0.0.1:$port/v1")
fi
schemathesis=$(realpath "$venv/bin/schemathesis")
(cd "$work" && "$schemathesis" run "http://127.0.0.1:$port/openapi.json" --checks not_a_server_error,status_code_conformance,content_type_conformance,negative_data_rejection \
  --max-examples "${HEED_EXAMPLES:-30}" --exclude-path-regex '^/heed/' >"$work/schemathesis" 2>&1) ||
  { tail -200 "$work/schemathesis" >&2; exit 1; }
tail -12 "$work/schemathesis"
