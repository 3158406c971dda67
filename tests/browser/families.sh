#!/usr/bin/env bash
# families.sh HEED SOURCE: the explorer on every golden model, so on every family that heed loads: the page's formulas against
# the engine's weights in every head, and all eleven steps on the page (one model of each model_type).
# HEED_EXPLORER_FILTER is a regular expression over the models' names, HEED_EXPLORER_BROWSER the browser (chromium). Skipped where the browser tests are.
set -euo pipefail
source "$(dirname "$0")/explore.bash"
for folder in "$source"/tests/golden/models/*/; do
  name=$(basename "$folder")
  [[ $name =~ ${HEED_EXPLORER_FILTER:-.} ]] || continue
  mkdir "$work/$name"
  cp "$folder/config.json" "$folder/model.safetensors" "$work/$name"
  if [[ $name == whisper* ]]; then whisper_vocabulary; else golden_vocabulary; fi >"$work/$name/vocab.txt"
done
for folder in "$source"/tests/golden/retrieval/rag_*/; do # RAG keeps the tokenizer of its generator in a folder of its own
  name=$(basename "$folder")
  [[ $name =~ ${HEED_EXPLORER_FILTER:-.} ]] || continue
  mkdir -p "$work/$name/generator_tokenizer"
  cp "$folder/config.json" "$folder/model.safetensors" "$work/$name"
  golden_vocabulary >"$work/$name/generator_tokenizer/vocab.txt"
done
explore "$work"/*/
node "$here/families.mjs" "$url"
kill -0 "$server" || { echo "the server died"; exit 1; }
