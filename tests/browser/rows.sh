#!/usr/bin/env bash
# rows.sh HEED SOURCE: the page on models whose rows are no tokens or that give no answer, in one browser: a Swin whose windows
# divide its grids and one whose do not, a regressor that heed trains for a few steps, an encoder without a head, and
# two models with global tokens. HEED_EXPLORER_FILTER names tests, HEED_EXPLORER_BROWSER the browser (chromium).
# Skipped where the browser tests are.
set -euo pipefail
source "$(dirname "$0")/explore.bash"
"$heed" data plus-two --count 40 -o "$work/numbers.jsonl" 2>/dev/null
"$heed" train --task regress --data "$work/numbers.jsonl" --out "$work/regressor" --layers 2 --heads 2 --width 16 --batch 4 --steps 4 --quiet \
  >"$work/train.log" 2>&1 || { cat "$work/train.log"; exit 1; }
for name in swin_classify swin_odd bert_base longformer_classify longformer_qa; do
  mkdir "$work/$name"
  cp "$source/tests/golden/models/$name"/{config.json,model.safetensors} "$work/$name"
  golden_vocabulary >"$work/$name/vocab.txt"
done
sed -i 's/"sep_token_id": 2/"sep_token_id": 3/' "$work/longformer_qa/config.json" # as the vocabulary has it: the question is global
explore "$work/regressor" "$work/swin_classify" "$work/swin_odd" "$work/bert_base" "$work/longformer_classify" "$work/longformer_qa"
node "$here/rows.mjs" "$url" "$heed" "$work"
kill -0 "$server" || { echo "the server died"; exit 1; }
