#!/usr/bin/env bash
# heed train from the outside: every task and architecture for a few steps, settings by flag, environment
# and file, fine-tuning, frozen weights, and what the run folder holds.
set -u
heed=$1
source "$(dirname "$0")/../support/expect.bash"
small="--layers 1 --heads 2 --width 16 --context 32 --batch 4 --steps 3 --warmup 1 --eval-every 3 --eval-texts 4"

for i in $(seq 1 60); do echo "the $i cats sat on the mat and looked at $((i * 7)) birds ."; done >"$folder/text.txt"
"$heed" data dates --count 40 -o "$folder/dates.tsv" 2>/dev/null
"$heed" data coreference --count 40 -o "$folder/classes.tsv" 2>/dev/null
"$heed" data plus-two --count 40 -o "$folder/numbers.jsonl" 2>/dev/null
"$heed" data shapes --count 24 -o "$folder/pictures" 2>/dev/null
# Grey squares, two classes, and three for another head.
for class in dark light middle; do
  mkdir -p "$folder/squares3/$class"
  case $class in dark) tone='\021' ;; light) tone='\356' ;; *) tone='\177' ;; esac
  for i in $(seq 1 12); do
    { printf 'P5 8 8 255\n'; head -c $((52 + i)) /dev/zero | tr '\0' "$tone"; head -c $((12 - i)) /dev/zero; } \
      >"$folder/squares3/$class/$i.pgm"
  done
done
mkdir "$folder/squares"
cp -r "$folder/squares3/dark" "$folder/squares3/light" "$folder/squares"

run() { # name, then options
  local name=$1; shift
  expect 0 "$heed" train $small --out "$folder/$name" "$@"
  [ -f "$folder/$name/model/config.json" ] || { echo "$name: no model"; failed=1; }
  grep -q '"final":true' "$folder/$name/metrics.jsonl" || { echo "$name: no last evaluation"; failed=1; }
  [ -s "$folder/$name/samples.jsonl" ] || { echo "$name: no samples"; failed=1; }
}
has() { grep -q "\"$2\":" "$folder/$1/metrics.jsonl" || { echo "$1: no $2"; failed=1; }; }

run gpt2 --task lm --data "$folder/text.txt" --tokenizer bpe:300; has gpt2 val_perplexity
run llama --task lm --arch llama --data "$folder/text.txt" --tokenizer char; has llama val_perplexity
run mlm --task mlm --data "$folder/text.txt" --tokenizer wordpiece:200; has mlm val_perplexity
for arch in heed-seq2seq marian t5 heed-rnn-seq2seq; do
  run "$arch" --task translate --arch $arch --data "$folder/dates.tsv" --tokenizer char
  has "$arch" val_bleu; has "$arch" val_chrf
done
run sentiment --task classify --data "$folder/classes.tsv" --tokenizer bpe:400; has sentiment val_accuracy
run bert --task classify --arch bert --data "$folder/classes.tsv" --tokenizer wordpiece:300; has bert val_f1
run caption --task caption --data "$folder/pictures" --tokenizer char; has caption val_exact_match
[ -f "$folder/caption/model/preprocessor_config.json" ] || { echo "caption: no preprocessor"; failed=1; }
# Hugging Face looks for the image encoder's body alone; under other names it would begin fresh there.
grep -aq '"encoder.encoder.layer.0.attention.attention.query.weight"' "$folder/caption/model/model.safetensors" ||
  { echo "caption: the encoder is not named as VisionEncoderDecoderModel has it"; failed=1; }
grep -aq '"encoder.classifier' "$folder/caption/model/model.safetensors" && { echo "caption: a classifier"; failed=1; }
run regress --task regress --data "$folder/numbers.jsonl"; says out prediction
run image --task image-classify --data "$folder/squares"; has image val_accuracy; has image val_f1
[ -f "$folder/image/model/preprocessor_config.json" ] || { echo "image: no preprocessor"; failed=1; }

"$heed" classify "$folder/image" --image "$folder/squares/dark/1.pgm" --image "$folder/squares/light/1.pgm" --json >"$folder/out"
[ "$(grep -c '"label":"\(dark\|light\)"' "$folder/out")" -eq 2 ] || { echo "image: not classified"; cat "$folder/out"; failed=1; }
for wrong in "classify $folder/bert --image $folder/squares/dark/1.pgm" "translate $folder/bert --text a" "generate $folder/bert --prompt a"; do
  expect 2 "$heed" $wrong; says err "this folder holds an encoder (bert)"
done
# A name with a comma is one file; the run folder may stand in the options' file.
mkdir "$folder/날짜, 둘"
cp "$folder/dates.tsv" "$folder/날짜, 둘/dates, all.tsv"
printf 'task = "translate"\nout = "%s"\n' "$folder/날짜, 둘/run" >"$folder/out.toml"
expect 0 "$heed" train $small --config "$folder/out.toml" --data "$folder/날짜, 둘/dates, all.tsv" --tokenizer char
[ -f "$folder/날짜, 둘/run/model/config.json" ] || { echo "no run where the options' file says"; failed=1; }

# A body under another head, a model once more, and weights that stay.
run head --task classify --arch bert --data "$folder/classes.tsv" --from "$folder/mlm" --tokenizer "$folder/mlm/model/tokenizer.json"
says err "begin fresh"
run head_again --task classify --data "$folder/classes.tsv" --from "$folder/mlm"  # --from says what it is
grep -q BertForSequenceClassification "$folder/head_again/model/config.json" || { echo "head_again: no classifier"; failed=1; }
"$heed" convert "$folder/gpt2" "$folder/gpt2.gguf" --dtype q8_0 --quiet
run quantized --task lm --data "$folder/text.txt" --from "$folder/gpt2.gguf"
run again --task translate --data "$folder/dates.tsv" --from "$folder/marian"
run frozen --task lm --data "$folder/text.txt" --from "$folder/gpt2" --freeze transformer.wte --freeze transformer.wpe
run pictures --task caption --data "$folder/pictures" --from "$folder/caption"
run image_again --task image-classify --data "$folder/squares" --from "$folder/image"
grep -q 'begin fresh' "$folder/err" && { echo "image_again: the same classes need no fresh head"; failed=1; }
run image_head --task image-classify --data "$folder/squares3" --from "$folder/image"; says err "begin fresh"
grep -q '"2": *"middle"' "$folder/image_head/model/config.json" || { echo "image_head: no third class"; failed=1; }
run regress_again --task regress --data "$folder/numbers.jsonl" --from "$folder/regress"; says out prediction
expect 3 "$heed" train --task lm --data "$folder/text.txt" --from "$folder/mlm" --out "$folder/x1"
expect 3 "$heed" train --task regress --data "$folder/numbers.jsonl" --from "$folder/image" --out "$folder/x1"
expect 3 "$heed" train --task image-classify --data "$folder/squares" --from "$folder/regress" --out "$folder/x1"
expect 3 "$heed" train --task image-classify --data "$folder/squares" --from "$folder/bert" --out "$folder/x1"
says err "a bert model cannot be trained for task image-classify; use vit"
expect 2 "$heed" train --task lm --data "$folder/text.txt" --from "$folder/llama" --arch gpt2 --out "$folder/x1"; says err "is a llama"
expect 2 "$heed" train --task lm --data "$folder/text.txt" --freeze nothing --out "$folder/x1"; says err "begins with 'nothing'"
# An error about data names its file.
: >"$folder/empty.txt"; echo a >"$folder/short.txt"; printf 'a\tb\n' >"$folder/one.tsv"
expect 3 "$heed" train --task lm --data "$folder/empty.txt" --out "$folder/x1"; says err "empty.txt: has no text"
expect 3 "$heed" train --task lm --data "$folder/short.txt" --out "$folder/x1"; says err "short.txt: .* tokens"
expect 3 "$heed" train --task translate --data "$folder/one.tsv" --out "$folder/x1"; says err "one.tsv: .* no examples are left"
expect 2 "$heed" train --task lm --data "$folder/text.txt" --tokenizer bpe:10 --out "$folder/x1"

# Flags over environment over file over preset.
printf 'task = "lm"\nlr = 0.25\nseed = 5\nlayers = 3\n' >"$folder/config.toml"
HEED_LR=0.5 HEED_SEED=6 expect 0 "$heed" train --config "$folder/config.toml" --preset tiny --seed 7 --dump-config
says out '^lr = 0.5'; says out '^seed = 7'; says out '^layers = 3'; says out '^width = 128'
expect 2 "$heed" train --preset tiny --out "$folder/x2"

# Every preset of every task: as it stands, or where it is large with one layer of its width.
preset() { # task, data, tokenizer options…
  local task=$1 data=$2; shift 2
  for size in tiny small base; do
    expect 0 "$heed" train --task "$task" --preset $size --dump-config
    cp "$folder/out" "$folder/preset"
    for key in layers heads width context batch lr; do
      grep -Eq "^$key = [0-9]*\.?[0-9e-]*[1-9]" "$folder/preset" || { echo "$task $size: no $key"; failed=1; }
    done
    local width
    width=$(sed -n 's/^width = //p' "$folder/preset")
    expect 0 "$heed" train --task "$task" --preset $size --data "$folder/$data" "$@" --out "$folder/$task-$size" \
      --layers 1 --batch 2 --steps 2 --warmup 1 --eval-texts 1 --probes 0 --quiet
    grep -Eq "\"(hidden_size|n_embd|d_model)\": *$width," "$folder/$task-$size/model/config.json" ||
      { echo "$task $size: the model is not $width wide"; failed=1; }
    rm -rf "$folder/$task-$size"
  done
}
preset lm text.txt --tokenizer char
preset mlm text.txt --tokenizer wordpiece:200
preset translate dates.tsv --tokenizer char
preset classify classes.tsv --tokenizer bpe:400
preset image-classify squares
preset caption pictures --tokenizer char
preset regress numbers.jsonl
expect 1 "$heed" train --task lm --data "$folder/text.txt" --layers 9000 --width 20000 --heads 2 --out "$folder/x3"
says err 'force'
exit $failed
