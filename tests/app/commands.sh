#!/usr/bin/env bash
# The program from the outside: exit codes and messages for bad input (FAULTS 35, 64, 65, 67, 88).
set -u
heed=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() { # code, text in stderr, command…
  local code=$1 text=$2
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null
  local got=$?
  if [ $got -ne "$code" ] || ! grep -qF -- "$text" "$work/err"; then
    echo "FAILED: $* gave exit $got, wanted $code with '$text'; it said:"
    cat "$work/err"
    failed=1
  fi
}

"$heed" tokenize --train char --data "$source/README.md" -o "$work/tokenizer.json" --quiet >/dev/null 2>&1 || {
  echo "FAILED: training a character tokenizer"
  failed=1
}
model=$source/tests/golden/generation/gpt2
expect 3 "they do not belong together" "$heed" generate "$model" --tokenizer "$work/tokenizer.json" --prompt x
# 11 × 11 patches, filled up to 12 × 12 for windows of 2: queries are counted by patches, and stages have fewer.
odd=$source/tests/golden/models/swin_odd
for layer_of in "0 121" "2 36"; do
  expect 2 "${layer_of#* } is not among the ${layer_of#* } queries" "$heed" inspect "$odd" --image "$source/tests/golden/io/rgb.png" \
    --layer "${layer_of% *}" --patches --query "${layer_of#* }" --format svg -o "$work/patches.svg"
done
# An empty name is no file.
expect 2 "--output: is empty; expected the name of a file" "$heed" forward "$model" --input a --output ""
expect 2 "DST: is empty; expected the name of a file" "$heed" convert "$model" ""
# What is written at the end of a long command is tried at its beginning, and what was there is kept.
"$heed" train --task lm --data "$source/README.md" --tokenizer char --preset tiny --steps 1 --out "$work/lm" --quiet >/dev/null 2>&1
echo "one two three four five six" >"$work/text"
expect 1 "$work/none/x: cannot be written" "$heed" eval "$work/lm" --data "$work/text" --imatrix "$work/none/x"
expect 1 "$work/none/x: cannot be written" "$heed" generate "$work/lm" --prompt one --cache "$work/none/x"
[ ! -s "$work/out" ] || { echo "FAILED: a text was generated before its cache was found to be unwritable"; failed=1; }
# A word that is no id is named alone, however long its line is.
printf '1 2 %0200d x3, 4 %s\n' 5 "$(printf 'rest %.0s' $(seq 1000))" >"$work/ids"
"$heed" tokenize "$work/tokenizer.json" --decode <"$work/ids" >/dev/null 2>"$work/err"
[ "$?" = 3 ] && [ "$(wc -c <"$work/err")" -lt 400 ] || { echo "FAILED: a bad id: $(head -c 400 "$work/err")"; failed=1; }
# The file that says how large images become is blamed where they are smaller than a patch.
cp -r "$source/tests/golden/models/vit_classify" "$work/vit" && echo '{"size": 1}' >"$work/vit/preprocessor_config.json"
expect 3 "$work/vit/preprocessor_config.json: images become 1 x 1 pixels" "$heed" classify "$work/vit" --image "$source/tests/golden/io/rgb.png"
mkdir -p "$work/long" && printf '{"model_type": "%0100000d"}' 0 >"$work/long/config.json"
cp "$model/model.safetensors" "$work/long"
expect 3 "is not supported" "$heed" info "$work/long"
[ "$(wc -c <"$work/err")" -lt 17000 ] || { echo "FAILED: a message quotes 100,000 bytes of a file"; failed=1; }
expect 2 "there is no option --no-such-flag" "$heed" generate "$model" --no-such-flag
expect 2 "did you mean --prompt?" "$heed" generate "$model" --promt x
expect 2 "did you mean generate?" "$heed" generat "$model"
expect 2 "did you mean swin?" "$heed" attention --input a --output b --variant swim
expect 2 "--window: '1' must be 2 numbers" "$heed" attention --input a --output b --window 1
variants=$source/tests/golden/attention_variants
expect 2 "--softcap: variant performer does not follow it" "$heed" attention --variant performer --softcap 2 \
  --input "$variants/performer_full.safetensors" --output "$work/o"
expect 2 "--causal: variant swin does not follow it" "$heed" attention --variant swin --causal top-left \
  --height 8 --width 8 --input "$variants/swin_shift0.safetensors" --output "$work/o"
expect 2 "--window: longformer looks as far to the left as to the right" "$heed" attention --variant longformer \
  --window 1,3 --input "$variants/longformer.safetensors" --output "$work/o"
"$heed" attention --variant bigbird --block-size 16 --input "$variants/swin_shift0.safetensors" \
  --output "$work/o" --quiet || {
  echo "FAILED: BigBird of 6 blocks sees everything"
  failed=1
}
expect 2 "forward needs MODEL" "$heed" forward
expect 2 "--prompt needs a value" "$heed" generate "$model" --prompt
if (ulimit -v 1000000 && "$heed" --version) >/dev/null 2>&1; then  # not with a sanitizer, which maps terabytes
  (ulimit -v 1000000 && expect 1 "are free. Try" "$heed" train --task lm --data "$source/README.md" --tokenizer char \
    --preset base --out "$work/large"; exit $failed) || failed=1
fi
HEED_THREADS=0 expect 2 "--threads: 0 is not in 1" "$heed" info "$model"
[ "$(HEED_LR=0.5 "$heed" train --task lm --preset tiny --dump-config | grep '^lr')" = "lr = 0.5" ] || {
  echo "FAILED: HEED_LR must set --lr"
  failed=1
}
[ "$(HEED_LR=0.5 "$heed" train --task lm --preset tiny --lr 0.25 --dump-config | grep '^lr')" = "lr = 0.25" ] || {
  echo "FAILED: what is typed goes before the environment"
  failed=1
}
expect 2 "threads" "$heed" info "$model" --threads 0
expect 2 "threads" "$heed" info "$model" --threads 1000000
expect 3 "no config.json" "$heed" info "$source/src"
expect 3 "/dev/zero" "$heed" info /dev/zero
mkfifo "$work/fifo"
expect 3 "fifo" timeout 5 "$heed" info "$work/fifo"
expect 3 "no such file" "$heed" info "$work/absent"
expect 2 "--temperature" "$heed" generate "$model" --tokenizer "$work/tokenizer.json" --prompt x --temperature 1e9

"$heed" info "$model" >/dev/full 2>"$work/err"
[ $? -eq 1 ] || { echo "FAILED: a full stdout must give exit 1"; failed=1; }
grep -q "stdout: cannot be written" "$work/err" || { echo "FAILED: a full stdout must be named"; failed=1; }
"$heed" data reverse --count 100000 2>"$work/err" | head -1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 0 ] && [ ! -s "$work/err" ] || { echo "FAILED: | head -1 said: $(cat "$work/err")"; failed=1; }
# What is printed into a closed stdout must not get into the file that is opened next.
"$heed" convert "$model" "$work/closed" >&- 2>&-
[ $? -eq 0 ] || { echo "FAILED: a closed stdout must not stop the work"; failed=1; }
"$heed" convert "$model" "$work/open" >/dev/null 2>&1
diff -r "$work/closed" "$work/open" || { echo "FAILED: a closed stdout changed what was written"; failed=1; }
for value in -1 1e99 x; do
  expect 2 "--layers: " "$heed" train --task lm --data "$source/README.md" --out "$work/run" --layers $value
done
expect 2 '`heed train --help` shows' "$heed" train --layers x
"$heed" train --task lm --dump-config --json | grep -q '^{.*"layers":4.*}$' || { echo "FAILED: --dump-config --json"; failed=1; }
exit $failed
