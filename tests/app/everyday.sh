#!/usr/bin/env bash
# Everyday use from the outside: what new users met. One part per fault that they met.
set -u
heed=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache LC_ALL=C.UTF-8
failed=0
fail() { echo "FAILED: $*"; failed=1; }
# code WANTED COMMAND…: stdout and stderr go to files
code() {
  local wanted=$1 got=0
  shift
  "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || { fail "exit $got instead of $wanted: $*"; tail -3 "$work/err"; }
}
says() { grep -q -- "$2" "$work/$1" || { fail "$1 does not say '$2'"; tail -5 "$work/$1"; }; }

for i in $(seq 40); do
  printf 'good\tthe film was really good number %d\nbad\tthe film was really bad number %d\n' "$i" "$i"
done >"$work/reviews.tsv"
{ for i in $(seq 36); do printf 'good\tthe film was good number %d\n' "$i"; done
  for i in 1 2 3 4; do printf 'bad\tthe film was good number %d\n' "$i"; done; } >"$work/majority.tsv"
cut -f2 "$work/reviews.tsv" >"$work/texts.txt"
"$heed" data dates --count 60 -o "$work/dates.tsv" --quiet
"$heed" data plus-two --count 40 -o "$work/numbers.jsonl" --quiet
small="--layers 1 --heads 2 --width 16 --context 16 --steps 12 --batch 8 --probes 0"
# shellcheck disable=SC2086
train() { code 0 "$heed" train $small "$@"; }

# Masked models are read at the mask.
train --task mlm --tokenizer wordpiece:120 --data "$work/texts.txt" --out "$work/mlm" --quiet
code 0 "$heed" inspect "$work/mlm" --text "the [MASK] was good"
says out 'Prediction for \[MASK\] at position 2: '
shown=$(sed -n 's/.*position 2: \([^ ]*\) .*/\1/p' "$work/out")
filled=$("$heed" fill "$work/mlm" --text "the [MASK] was good" --top-k 1 | cut -f1)
[ "$shown" = "$filled" ] || fail "inspect predicts '$shown', fill '$filled'"
code 0 "$heed" inspect "$work/mlm" --text "the [MASK] was good" --json --top-k 3
says out '"predicted_position":2'
code 0 "$heed" inspect "$work/mlm" --text "the film was good"
grep -q Prediction "$work/out" && fail "a prediction without a mask"

# Layers and heads that are not there.
code 2 "$heed" inspect "$work/mlm" --text "the film" --layer 9
says err 'layers 0 to 0, heads 0 to 1'
code 2 "$heed" inspect "$work/mlm" --text "the film" --head 5
says err 'head 5; it has self: layers 0 to 0, heads 0 to 1'
code 0 "$heed" info "$work/mlm"
says out ' 1 layer, 2 heads, hidden size 16'
says out '^weights  *[0-9.]* KiB (f32)$'
says out 'KiB\|MiB'
grep -q '[0-9] [kMG]B' "$work/out" && fail "decimal megabytes in info"

# The metric that chooses the model.
train --task translate --tokenizer char --data "$work/dates.tsv" --out "$work/dates" --eval-every 4
says err 'best so far by chrF'
train --task translate --tokenizer char --data "$work/dates.tsv" --out "$work/dates2" --eval-every 4 --best-by loss --json
says err 'best so far by loss'
says out '"best_by":"loss"'
code 2 "$heed" train --task translate --data "$work/dates.tsv" --out "$work/x" --best-by accuracy
says err 'use chrf, bleu, exact_match, loss'

# Sizes of the model that is started from, and a rate that does not destroy it.
code 0 "$heed" train --task mlm --from "$work/mlm" --data "$work/texts.txt" --out "$work/x" --dump-config
says out '^layers = 1$'
says out '^width = 16$'
says out '^lr = 0.0003$'
code 0 "$heed" train --task lm --data "$work/texts.txt" --out "$work/x" --dump-config
says out '^lr = 0.001$'

train --task mlm --arch roberta --tokenizer wordpiece:120 --data "$work/texts.txt" --out "$work/roberta" --quiet
train --task mlm --from "$work/roberta" --data "$work/texts.txt" --out "$work/roberta2" --quiet
grep -q '"model_type": *"roberta"' "$work/roberta2/model/config.json" || fail "a roberta that is fine-tuned stays one"

# What is missing is named; a folder without a run cannot be resumed.
code 2 "$heed" train --data "$work/texts.txt" --out "$work/x"
says err '^heed: --task: is missing'
code 2 "$heed" train --task lm --out "$work/x" --lang ko
says err '^heed: --data: 학습할 파일이나 폴더가 빠졌습니다'
code 2 "$heed" train --resume --out "$work/nothing"
says err 'nothing: holds no run that could be resumed'
code 2 "$heed" train --preset small --resume --out "$work/nothing"
says err 'nothing: holds no run that could be resumed'
code 2 "$heed" train --preset small --resume
says err 'out: is missing: the run folder to resume'

# Resume with the run folder alone; a preset in the file; presets are listed.
code 0 "$heed" train --resume --out "$work/dates2" --quiet
printf 'task = "lm"\npreset = "tiny"\nlayers = 3\n' >"$work/run.toml"
code 0 "$heed" train --config "$work/run.toml" --data "$work/texts.txt" --out "$work/x" --dump-config
says out '^width = 128$'
says out '^layers = 3$'
code 0 "$heed" train --list-presets
says out '^translate  *small  *3  *4  *256  *512  *128  *128'

# Without a home there is no cache, and training goes on.
# shellcheck disable=SC2086
code 0 env -u XDG_CACHE_HOME HOME=/dev/null/home "$heed" train --task lm $small --tokenizer char --data "$work/texts.txt" --out "$work/lm" --quiet

# Classes: macro-F1 first, a table per class, the majority answer is named, pictures in the run folder.
train --task classify --tokenizer wordpiece:120 --data "$work/majority.tsv" --validation "$work/majority.tsv" --out "$work/majority" --eval-every 12 --lr 0.01
says out 'precision'
says out "always answers 'good'"
says err 'macro-F1 0\.[0-9]* | accuracy 0.9'
[ -s "$work/majority/loss.svg" ] && [ -s "$work/majority/confusion.svg" ] || fail "no pictures in the run folder"
says err 'Loss  · training  o validation'
train --task classify --arch bert --tokenizer wordpiece:120 --data "$work/reviews.tsv" --out "$work/classify" --lr 0.01 --quiet

# Evaluation of every task.
code 0 "$heed" eval "$work/classify" --data "$work/reviews.tsv" --json
says out '"task":"classify","f1_macro":'
says out '"confusion":\[\['
code 0 "$heed" eval "$work/classify" --data "$work/reviews.tsv"
says out 'Predicted class'
code 0 "$heed" eval "$work/dates" --data "$work/dates.tsv" --json
says out '"bleu":.*"chrf":.*"exact_match":'
code 0 "$heed" eval "$work/mlm" --data "$work/texts.txt" --json
says out '"task":"mlm","perplexity":'
code 0 "$heed" eval "$work/lm" --data "$work/texts.txt" --json
says out '"task":"lm","perplexity":'
printf 'ugly\tthe film\n' >"$work/other.tsv"
code 3 "$heed" eval "$work/classify" --data "$work/other.tsv"
says err "label 'ugly'"
mkdir -p "$work/squares/dark" "$work/squares/light"
for i in $(seq 8); do
  { printf 'P5 8 8 255\n'; head -c 64 /dev/zero | tr '\0' '\021'; } >"$work/squares/dark/$i.pgm"
  { printf 'P5 8 8 255\n'; head -c 64 /dev/zero | tr '\0' '\356'; } >"$work/squares/light/$i.pgm"
done
train --task image-classify --data "$work/squares" --out "$work/vit" --quiet
code 0 "$heed" eval "$work/vit" --data "$work/squares" --json
says out '"task":"image-classify","f1_macro":.*"examples":16'
"$heed" data shapes --count 12 -o "$work/pictures" --quiet
train --task caption --tokenizer char --data "$work/pictures" --out "$work/caption" --eval-every 3
says err 'best so far by exact match'
says err 'exact match 0.0000 | best so far by loss' # equal by the metric, so the loss decides
code 0 "$heed" eval "$work/caption" --data "$work/pictures" --json
says out '"task":"caption","exact_match":'
pictures=("$work"/pictures/*.png)
code 3 "$heed" caption "$work/caption" "${pictures[0]}" "$work/missing.png" "${pictures[1]}" "$work/texts.txt"
says err "$work/missing.png" # named, and the rest goes on (FAULTS 99)
says err "$work/texts.txt"
[ "$(wc -l <"$work/out")" = 2 ] || fail "caption loses pictures: $(cat "$work/out")"
code 3 "$heed" caption "$work/caption" "$work/missing.png"

# A regressor can be asked, and scored; the end of its training says how.
train --task regress --data "$work/numbers.jsonl" --out "$work/numbers"
says err "^next: heed predict $work/numbers 1 2 3 4 5\$"
code 0 "$heed" predict "$work/numbers" 1 2 3 4 --json
says out '^{"input":\[1,2,3,4\],"prediction":\[[-0-9.e,]*\]}$'
printf '1,2,3\n\n-4;5;x\n1 2\n' >"$work/rows.csv"
code 3 "$heed" predict "$work/numbers" <"$work/rows.csv"
says err 'line 3'
[ "$(wc -l <"$work/out")" = 4 ] && [ -z "$(sed -n 2p "$work/out")" ] && [ -z "$(sed -n 3p "$work/out")" ] && [ -n "$(sed -n 4p "$work/out")" ] || fail "predict loses lines"
code 0 "$heed" predict "$work/numbers" -- -1 2.5
code 0 "$heed" predict "$work/numbers" 1 -2 3 --json
says out '"input":\[1,-2,3\]'
code 0 "$heed" eval "$work/numbers" --data "$work/numbers.jsonl" --json
says out '"mean_squared_error":'
code 3 "$heed" predict "$work/lm" 1 2
says err 'heed train --task regress'

# What a bug report needs.
code 0 "$heed" doctor
for word in CPU SIMD bf16 threads memory build cache; do says out "$word"; done
code 0 "$heed" --version --verbose
says out '^heed [0-9]'
says out SIMD
code 0 "$heed" doctor --json
says out '"simd":"\([A-Z].* in use\|NEON"\)'
says out '"bf16":"\(AMX tiles\|AVX-512 BF16\|BFMMLA\|in f32\)'
# Without /proc, as in a bare chroot, how much memory is free is not known: that is said, and training starts all the same.
without_proc() { unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' _ "$@"; }
if without_proc true 2>/dev/null; then
  code 0 without_proc "$heed" --version --verbose
  says out '^memory  *[0-9.]* [GM]iB, unknown how much of it is available$'
  code 0 without_proc "$heed" doctor --lang ko
  says out '^메모리  *[0-9.]* [GM]iB, 그 가운데 얼마나 쓸 수 있는지는 알 수 없음$'
  # shellcheck disable=SC2086
  code 0 without_proc "$heed" train --task regress --data "$work/numbers.jsonl" --out "$work/without" $small --quiet
fi
code 0 "$heed" cache
says out '^ *[0-9.]* KiB  20'
code 0 "$heed" cache --clear
says out '^removed [0-9.]* [KM]iB$'
says out ': 0 files, 0'

# A file may have the name of a command.
code 0 "$heed" explore "$work/lm" quickstart train --help
says out '^Usage: heed explore '

# A language that heed has not: that is said in the locale's.
code 2 env LC_ALL=ko_KR.UTF-8 "$heed" doctor --lang fr
says err "'fr'.*가운데 하나가 아닙니다"

# The help names every command once.
code 0 "$heed" --help
sed -nE 's/^  ([a-z]+) .*/\1/p' "$work/out" | sort >"$work/listed"
"$heed" manual -o "$work/man"
find "$work/man" -name 'heed-*.1' -printf '%f\n' | sed 's/heed-//; s/\.1//' | sort | cmp - "$work/listed" || fail "the help does not name every command once"

# Korean to the last word: phrases inside messages, particles, warnings about lines, the system's errors, lists.
code 2 "$heed" translate "$work/lm" --text x --lang ko
says err '인코더-디코더 모델이 필요합니다. 이 폴더의 모델은 디코더(gpt2)입니다'
{ printf 'good\n'; printf 'film %.0s' $(seq 40); echo; } >"$work/long.txt"
code 0 "$heed" classify "$work/classify" --lang ko <"$work/long.txt"
says err '2번째 줄: .*의 토큰이 [0-9]*개라서 16개만 읽었습니다'
code 3 "$heed" eval "$work/lm" --data "$work/nothing.txt" --lang ko
says err '열 수 없습니다: 그런 파일이나 디렉터리가 없습니다'
code 2 "$heed" train --task lmm --lang ko
says err '가운데 하나가 아닙니다. 혹시 lm입니까?'
code 2 "$heed" data --lang ko
says err '데이터셋 이름을 주십시오'
code 0 env HEED_LANG=ko "$heed" data --list
says out '글자를 거꾸로 쓰기'
grep -q '[a-z] to [a-z0-9]\|letters\|drawings' "$work/out" && fail "English in the Korean list of datasets"

# The costs of layers, and the tutorial's 4 MiB.
code 0 "$heed" cost --length 100 --width 512 --kernel 3 --json
says out '"self_attention":{"operations":5120000.0\?,'
says out '"recurrent":{"operations":26214400.0\?,"sequential_steps":100'
code 0 "$heed" cost --heads 1
says out '    1024          4.00'

# Matrices of two dimensions, and an offset of causal attention: as many past keys as a cache holds. Queries of
# zeros attend evenly to the keys that they may see.
header='{"q":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"k":{"dtype":"F32","shape":[4,2],"data_offsets":[16,48]},"v":{"dtype":"F32","shape":[4,2],"data_offsets":[48,80]}}'
{ printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"; head -c 80 /dev/zero; } >"$work/in.safetensors"
code 0 "$heed" attention --input "$work/in.safetensors" --output "$work/out.safetensors" --causal-offset 1
bytes=$(($(od -An -tu8 -N8 "$work/out.safetensors")))
begin=$(tail -c +9 "$work/out.safetensors" | head -c "$bytes" | sed -E 's/.*"weights":\{[^}]*"shape":\[2,4\],"data_offsets":\[([0-9]+),.*/\1/')
seen=$(od -An -tf4 -v -w16 -j $((8 + bytes + begin)) -N 32 "$work/out.safetensors" | tr -s ' ')
[ "$seen" = " 0.5 0.5 0 0
 0.33333334 0.33333334 0.33333334 0" ] || fail "weights with an offset: $seen"

# Pictures: scales, colours, special tokens.
picture() { code 0 "$heed" inspect "$work/mlm" --text "the film was good" --format svg -o "$work/$1.svg" "${@:2}"; }
picture absolute --head 0; picture linear --head 0 --scale linear; picture row --head 0 --scale row; picture log --head 0 --scale log
picture reds --head 0 --colors reds; picture plain --head 0 --hide-special; picture grid
for name in linear row log reds plain; do cmp -s "$work/absolute.svg" "$work/$name.svg" && fail "--$name changes nothing"; done
grep -q 'CLS' "$work/plain.svg" && fail "special tokens are hidden"
[ "$(grep -o 'class="color-bar"' "$work/grid.svg" | wc -l)" = 2 ] || fail "a colour bar per panel"
code 0 "$heed" inspect "$work/lm" --text "the" --json --top-k 3 --layer 0 --head 0
grep -q '"weight":0[,}]' "$work/out" && fail "top-k pads with zero weights"

# Progress says texts or bytes per second; nothing on a short job off a terminal.
code 0 "$heed" classify "$work/classify" <"$work/texts.txt"
[ ! -s "$work/err" ] || fail "a short job shows progress: $(head -1 "$work/err")"

# On a terminal a command without a text says what it waits for.
if command -v script >/dev/null; then
  for wanted in en:'Type one text per line; Ctrl-D ends' ko:'한 줄에'; do
    printf 'the\n' | script -qec "'$heed' generate $work/lm --max-tokens 2 --lang ${wanted%%:*}" /dev/null >"$work/out" 2>&1 || fail "generate on a terminal"
    says out "${wanted#*:}"
  done
fi
[ $failed = 0 ] && echo passed
exit $failed
