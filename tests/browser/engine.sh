#!/usr/bin/env bash
# engine.sh HEED SOURCE: the page against the real server: a GPT, a BERT and an encoder-decoder that heed trains
# for a few steps, a ViT and a captioner of the golden models, and the run of the GPT. In Chromium; the first
# screen, the steps and the saved file in Firefox, too. Skipped where the browser tests are.
set -euo pipefail
heed=$1 source=$2
here=$(cd "$(dirname "$0")" && pwd)
source "$here/npm.bash"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || { echo "the browser tests need Node.js 20"; exit 77; }
[ -x /usr/bin/chromium ] || { echo "no browser: apt-get install chromium"; exit 77; }
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for i in $(seq 200); do echo "the film was good $i"; done >"$work/text.txt"
for i in $(seq 60); do printf 'a%d b%d\tb%d a%d\n' "$i" "$i" "$i" "$i"; done >"$work/pairs.tsv"
small="--heads 4 --width 32 --context 128 --batch 4 --steps 4 --quiet"
# shellcheck disable=SC2086
{
  "$heed" train --task lm --tokenizer bpe:300 --data "$work/text.txt" --out "$work/lm" --layers 3 $small
  "$heed" train --task mlm --arch bert --tokenizer wordpiece:120 --data "$work/text.txt" --out "$work/mlm" --layers 2 $small
  "$heed" train --task lm --arch llama --tokenizer char --data "$work/text.txt" --out "$work/long" --layers 2 --heads 2 --width 32 --context 128 --batch 4 --steps 2 --quiet
  "$heed" train --task translate --tokenizer bpe:300 --data "$work/pairs.tsv" --out "$work/seq" --layers 2 $small
} >"$work/train.log" 2>&1 || { cat "$work/train.log"; exit 1; }
# Rotary positions have no parameters: the same weights read longer texts.
sed -i 's/"max_position_embeddings": *128/"max_position_embeddings": 32768/' "$work/long/model/config.json"
cp -r "$source/tests/golden/models/vit_classify" "$work/vit"
cp -r "$source/tests/golden/models/vit_gpt2" "$work/captioner"
{ printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 5 36); do echo "w$i"; done; } >"$work/captioner/vocab.txt"
"$heed" explore "$work/lm" "$work/mlm" "$work/seq" "$work/vit" "$work/captioner" "$work/long" --port 0 2>"$work/err" &
server=$!
for _ in $(seq 600); do
  url=$(sed -nE 's/^listening on (http:.*)$/\1/p' "$work/err")
  [ -z "$url" ] || break
  kill -0 "$server" 2>/dev/null || { cat "$work/err"; exit 1; }
  sleep 0.05
done
run() { node "$here/run.mjs" --url "$url" --heed "$heed" --folder "$work" --browser "$1" --filter "$2"; }
run chromium 'first screen|all eleven steps|why,|within three clicks|temperature|ablated|patching|two heads|streams|SVG, PNG|NumPy|heed inspect|tree|captioner|32,768'
[ ! -x /usr/bin/firefox-esr ] || run firefox 'first screen|all eleven steps, decoder|why, seq2seq|heed inspect writes'
kill -0 "$server" || { echo "the server died"; exit 1; }
