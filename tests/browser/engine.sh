#!/usr/bin/env bash
# engine.sh HEED SOURCE: every test of the page against the real server, in Debian's Chromium and Firefox: quickstart's
# reader, a GPT, a BERT and an encoder-decoder that heed trains for a few steps, a quantised copy of the GPT, a ViT and a
# captioner of the golden models, one that reads features of regions, a model of 32,768 tokens, and two runs; and the
# Whisper of the golden models, or whisper-base of HEED_MODELS. HEED_EXPLORER_FILTER names tests, HEED_EXPLORER_BROWSER one browser. Skipped where the browser tests are.
set -euo pipefail
source "$(dirname "$0")/explore.bash"
for i in $(seq 200); do echo "the film was good $i"; done >"$work/text.txt"
for i in $(seq 60); do printf 'a%d b%d\tb%d a%d\n' "$i" "$i" "$i" "$i"; done >"$work/pairs.tsv"
small="--heads 4 --width 32 --context 128 --batch 4 --steps 4 --quiet"
# shellcheck disable=SC2086
{
  "$heed" train --task lm --tokenizer bpe:300 --data "$work/text.txt" --out "$work/lm" --layers 3 $small --eval-every 2 --checkpoint-every 2 --keep 2
  "$heed" train --task mlm --arch bert --tokenizer wordpiece:120 --data "$work/text.txt" --out "$work/mlm" --layers 2 $small
  "$heed" train --task lm --arch llama --tokenizer char --data "$work/text.txt" --out "$work/long" --layers 2 --heads 2 --width 32 --context 128 --batch 4 --steps 2 --quiet
  "$heed" train --task translate --tokenizer bpe:300 --data "$work/pairs.tsv" --out "$work/seq" --layers 2 $small
  "$heed" train --task lm --arch llama --tokenizer bpe:300 --data "$work/text.txt" --out "$work/llama" --layers 2 --heads 2 --width 64 --ff 128 --context 128 --batch 4 --steps 2 --quiet
  "$heed" convert "$work/llama/model" "$work/lm-q8.gguf" --dtype q8_0
  # Features of 8 images with 6 regions each, and one caption per line.
  node -e 'const data = Buffer.from(Float32Array.from({ length: 8 * 6 * 16 }, (_, i) => Math.sin(i * i)).buffer);
    const head = Buffer.from(JSON.stringify({ features: { dtype: "F32", shape: [8, 6, 16], data_offsets: [0, data.length] } }));
    const size = Buffer.alloc(8); size.writeUInt32LE(head.length); process.stdout.write(Buffer.concat([size, head, data]));' >"$work/features.safetensors"
  for i in $(seq 8); do echo "a red dog $i"; done >"$work/features.txt"
  "$heed" train --task caption --tokenizer char --data "$work/features.safetensors" --out "$work/regions" --layers 2 --heads 2 --width 16 --batch 2 --steps 2 --quiet
  "$heed" quickstart --out "$work/quickstart" --quiet
} >"$work/train.log" 2>&1 || { cat "$work/train.log"; exit 1; }
# Rotary positions have no parameters: the same weights read longer texts. Not as a run: its folder is not followed.
mv "$work/long/model" "$work/model" && rm -rf "$work/long" && mv "$work/model" "$work/long"
sed -i 's/"max_position_embeddings": *128/"max_position_embeddings": 32768/' "$work/long/config.json"
cp -r "$source/tests/golden/models/vit_classify" "$work/vit"
cp -r "$source/tests/golden/models/vit_gpt2" "$work/captioner"
golden_vocabulary >"$work/captioner/vocab.txt"
whisper=${HEED_MODELS:+$HEED_MODELS/whisper-base}
if [ -z "$whisper" ]; then
  whisper=$work/whisper
  cp -r "$source/tests/golden/models/whisper" "$whisper"
  whisper_vocabulary >"$whisper/vocab.txt"
fi
explore "$work/lm" "$work/mlm" "$work/seq" "$work/vit" "$work/captioner" "$work/long" "$work/quickstart" "regions=$work/regions/model" \
  "lm-q8=$work/lm-q8.gguf" "whisper=$whisper"
node "$here/run.mjs" --url "$url" --heed "$heed" --folder "$work" --server "$server" ${HEED_EXPLORER_FILTER:+--filter "$HEED_EXPLORER_FILTER"} \
  ${HEED_EXPLORER_BROWSER:+--browser "$HEED_EXPLORER_BROWSER"}
kill -0 "$server" || { echo "the server died"; exit 1; }
