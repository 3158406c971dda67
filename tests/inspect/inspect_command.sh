#!/usr/bin/env bash
# heed inspect in every format on a small GPT-2 with a word list of its own.
set -euo pipefail
heed=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1"; exit 1; }

cp -r "$source/tests/golden/models/gpt2_lm" "$work/model"
{ printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\nmat\n나는\n학교에\n갔다\n'
  for i in $(seq 13 36); do echo "word$i"; done; } > "$work/model/vocab.txt"
run() { "$heed" inspect "$work/model" --text "the cat sat on the mat" --quiet "$@"; }

run > "$work/term"
grep -q 'Head 2' "$work/term" || fail "the terminal shows every head"
! grep -q $'\x1b' "$work/term" || fail "no control codes off a terminal"
grep -q 'Prediction: ' "$work/term" || fail "the prediction is shown"
run --color always --layer 0 --head 1 | grep -q $'\x1b\[' || fail "colour where it is asked for"
run --layer 1 --head 0 --top-k 2 | grep -Eq 'mat → +[^ ]+ 0\.[0-9]{3} +[^ ]+ 0\.[0-9]{3}$' || fail "top-k"

run --format svg -o "$work/a.svg" --layer 0 --head 1
grep -c 'class="cell"' "$work/a.svg" | grep -qx 64 || fail "one cell a pair of tokens"
run --format png -o "$work/a.png"
[ "$(head -c 4 "$work/a.png" | tail -c 3)" = PNG ] || fail "a PNG file"
run --format html -o "$work/a.html"
grep -q 'id="heed-data">{"version":1,"language":"en","start":{"trace":{"id":"t"' "$work/a.html" || fail "an HTML page"
grep -q 'POST /heed/v1/traces/t/why {\\"head\\":0,\\"key\\":0,\\"kind\\":\\"self\\",\\"layer\\":0,\\"query\\":7}' "$work/a.html" || fail "the scores' parts in the page"
run --format html --ablate 1.2 --no-causal --layer 1 --head 2 --lang ko > "$work/b.html"
grep -q '"language":"ko"' "$work/b.html" || fail "a Korean page"
grep -Eq '"interventions":\[\{[^}]*"layer":1[^}]*\},\{[^}]*"causal"[^}]*\}\]' "$work/b.html" || fail "the changed pass in the page"
grep -q '"kind":"self","layer":1,"head":2,"query":7},"responses"' "$work/b.html" || fail "the page opens on the head asked for"
run --format npy -o "$work/a.npy"
head -c 200 "$work/a.npy" | grep -aq '(2, 3, 8, 8)' || fail ".npy of [layers, heads, queries, keys]"
run --format npy --layer 0 --head 1 -o "$work/b.npy"
head -c 200 "$work/b.npy" | grep -aq '(8, 8)' || fail ".npy of one head"

run --json --heads-table --top-k 1 > "$work/a.json"
grep -q '"tokens":\["\[CLS\]","the","cat","sat","on","the","mat","\[SEP\]"\]' "$work/a.json" || fail "tokens in JSON"
[ "$(grep -o '"output_share"' "$work/a.json" | wc -l)" -eq 6 ] || fail "one line per head"
run --heads-table | grep -q '^self .* 1 .* 2 ' || fail "the head table"
run --rollout --format json | grep -q '"show":"rollout"' || fail "rollout"
run --show gradient --layer 0 > /dev/null || fail "gradient maps"
run --show values --layer 0 > /dev/null || fail "value-weighted maps"
run --ablate 0.1 --ablate 1.2=0.5 | grep -q 'Unchanged model: ' || fail "ablation shows both predictions"
run --no-causal --json --layer 0 --head 0 | grep -q '"undisturbed"' || fail "causal off"
# A score split into parts: they add up to it, the remainder is rounding, and the weight is the one of the map.
run --why 1,2,7,3 --json > "$work/why.json"
run --json --layer 1 --head 2 > "$work/map.json"
weight=$(sed -E 's/.*"values":\[(.*)\]\}\]\}$/\1/; s/.*\[([^]]*)\]$/\1/' "$work/map.json" | cut -d, -f4)
grep -oE '"(score|weight|bias|value|remainder)":[-+.e0-9]+' "$work/why.json" | tr -d '"' | awk -F: -v weight="$weight" '
  function size(x) { return x < 0 ? -x : x }
  $1 == "value" { sum += $2; total += size($2); ++parts; next } { figure[$1] = $2 }
  END { score = figure["score"]; rest = figure["remainder"]
    if (parts < 50 || size(rest) > 1e-5 * size(score) || size(sum + figure["bias"] + rest - score) > 1e-9 * total) exit 1
    if (size(figure["weight"] - weight) > 1e-6) exit 1 }' || fail "--why: $(head -c 300 "$work/why.json"), weight $weight"
run --why 1,2,7,3 | grep -Eq '[0-9]  blocks\.0\.(mlp|attn\.head\.[0-2]) · ' || fail "--why for people"
for place in 1,2,7 1,2,7,8 1,3,7,3 2,0,7,3 a,b,c,d; do
  ! run --why "$place" > /dev/null 2>&1 || fail "--why $place is taken"
done

"$heed" inspect "$work/model" --text "나는 학교에 갔다" --lang ko | grep -q '쿼리' || fail "Korean"

# An encoder-decoder, an image and an encoder.
words() { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 5 "$1"); do echo "w$i"; done; }
cp -r "$source/tests/golden/models/t5_relu" "$work/t5"
words 36 > "$work/t5/vocab.txt"
t5() { "$heed" inspect "$work/t5" --text "w5 w6 w7" --target "w8 w9" "$@"; }
t5 --kind encoder --json --layer 0 --head 0 | grep -q '"rows":5,"columns":5' || fail "encoder"
t5 --kind decoder --json --layer 0 --head 0 | grep -q '"rows":3,"columns":3' || fail "decoder"
t5 --json --layer 0 --head 0 | grep -q '"kind":"cross".*"rows":3,"columns":5' || fail "cross"
t5 --format html -o "$work/t5.html"
[ "$(grep -o '"kind":"[a-z]*","layers"' "$work/t5.html" | sort -u | wc -l)" -eq 3 ] || fail "all kinds in one page"
"$heed" inspect "$work/t5" --text "w5 w6" --json | grep -q '"target":\[' || fail "the model's own words"

# LSTM encoder-decoders with every attention, in every format.
"$heed" data dates --count 40 -o "$work/dates.tsv" --quiet
"$heed" train --task translate --arch heed-rnn-seq2seq --data "$work/dates.tsv" --tokenizer char --width 8 --steps 1 \
  --probes 0 --out "$work/lstm" --quiet > /dev/null
lstm() { "$heed" inspect "$work/lstm" --text "9 May 1962" --target "1962-05-09" --quiet "$@"; }
lstm | grep -q '^ *5 .*0\.[0-9][0-9]' || fail "an LSTM in the terminal"
lstm --json | grep -q '"kind":"cross".*"rows":11,"columns":10' || fail "an LSTM's attention"
lstm --top-k 1 | grep -q ' → ' || fail "top-k of an LSTM"
lstm --heads-table | grep -q '^cross' || fail "the head table of an LSTM"
lstm --show values > /dev/null || fail "value-weighted maps of an LSTM"
lstm --format svg -o "$work/lstm.svg"
grep -c 'class="cell"' "$work/lstm.svg" | grep -qx 110 || fail "an LSTM as SVG"
lstm --format png -o "$work/lstm.png"
[ "$(head -c 4 "$work/lstm.png" | tail -c 3)" = PNG ] || fail "an LSTM as PNG"
lstm --format html -o "$work/lstm.html"
grep -q '"kind":"cross"' "$work/lstm.html" || fail "an LSTM as a page"
lstm --format npy -o "$work/lstm.npy"
head -c 200 "$work/lstm.npy" | grep -aq '(1, 1, 11, 10)' || fail "an LSTM as .npy"
# What it writes itself is what translate writes.
own=$("$heed" inspect "$work/lstm" --text "9 May 1962" --json --quiet | grep -o '"target":\[[^]]*\]' | tr -cd '[:alnum:]-' | sed 's/^target//;s/^s//')
said=$("$heed" translate "$work/lstm" --text "9 May 1962" --beam-size 1 --max-tokens 64 --quiet | tr -cd '[:alnum:]-')
[ "$own" = "$said" ] || fail "inspect's own target '$own' is not what translate says: '$said'"
{ printf 'P6 12 16 255\n'; head -c 576 /dev/zero | tr '\0' 'q'; } > "$work/image.ppm"
vit() { "$heed" inspect "$source/tests/golden/models/vit_classify" --image "$work/image.ppm" "$@"; }
vit --json --layer 0 --head 0 | grep -q '"rows":7,"columns":7' || fail "patches of an image"
vit --patches --format svg -o "$work/patches.svg"
grep -c 'class="patches" data-rows="3" data-columns="2"' "$work/patches.svg" | grep -qx 3 || fail "a panel a head"
vit --format html -o "$work/vit.html"
grep -q '"patch":{"rows":3,"columns":2,"first":1}' "$work/vit.html" || fail "the image in the page"

code() { set +e; "$@" > /dev/null 2> "$work/error"; echo $?; set -e; }
[ "$(code run --layer 9)" = 2 ] || fail "no such layer: exit 2"
[ "$(code run --ablate 0)" = 2 ] || fail "a bad --ablate: exit 2"
[ "$(code lstm --ablate 0.0)" = 2 ] || fail "an LSTM's attention cannot be ablated: exit 2"
[ "$(code lstm --show gradient)" = 2 ] || fail "an LSTM has no gradient maps: exit 2"
[ "$(code run --show gradient --format html)" = 2 ] || fail "no gradient maps in a page: exit 2"
[ "$(code run --format html --layer 9)" = 2 ] || fail "a page of no such layer: exit 2"
grep -q 'self: layers 0 to 1, heads 0 to 2' "$work/error" || fail "the error says what there is"
[ "$(code run --ablate 7.0)" = 2 ] || fail "--ablate of no layer: exit 2"
[ "$(code run --format npy)" = 2 ] || fail ".npy needs a file: exit 2"
[ "$(code run --format nonsense)" = 2 ] || fail "an unknown format: exit 2"
[ "$(code "$heed" inspect "$work/model")" = 2 ] || fail "no text: exit 2"
[ "$(code "$heed" inspect "$work/none" --text a)" = 3 ] || fail "no model: exit 3"
rm "$work/model/vocab.txt"
[ "$(code run)" = 2 ] || fail "no tokenizer: exit 2"
grep -q -- '--tokenizer' "$work/error" || fail "the error says what to do"
echo passed
