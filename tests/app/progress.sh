#!/usr/bin/env bash
# Commands that may take long show how far they are, in both languages, and nothing with --quiet. The clock runs a million
# times as fast here (tests/faults/shim/clock_shim.cc): each job seems to take minutes.
set -u
heed=$1
shim=$(dirname "$heed")/lib/libheed_clock_shim.so
[ -f "$shim" ] || { echo "skipped: $shim is not built"; exit 77; }
nm -D "$heed" | grep -q __asan && { echo "skipped: a sanitizer must be loaded first"; exit 77; }
work=$(mktemp -d)
cp "$shim" "$work/shim.so" && shim=$work/shim.so # LD_PRELOAD takes no path with spaces
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache LC_ALL=C.UTF-8
failed=0
fail() { echo "FAILED: $*"; failed=1; }

for i in $(seq 200); do printf 'good\tthe film was good number %d\nbad\tthe film was bad number %d\n' "$i" "$i"; done >"$work/reviews.tsv"
cut -f2 "$work/reviews.tsv" >"$work/texts"
"$heed" data dates --count 60 -o "$work/dates.tsv" --quiet
cut -f1 "$work/dates.tsv" >"$work/dates"
small="--layers 1 --heads 2 --width 16 --context 16 --steps 2 --quiet --batch 8 --probes 0"
# shellcheck disable=SC2086
"$heed" train --task classify --arch bert --tokenizer wordpiece:120 --data "$work/reviews.tsv" --out "$work/classifier" $small || fail "train classify"
# shellcheck disable=SC2086
"$heed" train --task translate --tokenizer char --data "$work/dates.tsv" --out "$work/translator" $small || fail "train translate"

# shows ENGLISH KOREAN INPUT COMMAND…
shows() {
  local english=$1 korean=$2 input=$3 language word
  shift 3
  for language in en ko; do
    word=$english
    [ $language = en ] || word=$korean
    LD_PRELOAD=$shim "$heed" "$@" --lang $language <"$input" >/dev/null 2>"$work/err" || fail "$* ended with $?: $(tail -1 "$work/err")"
    grep -qE "^$word \[#* *\] +[0-9]+ % \| [0-9.]+ [^ ]+/s \| (ETA ([0-9]+h[0-9]+m|([0-9]+m)?[0-9]+s)|남은 시간 ([0-9]+시간 [0-9]+분|([0-9]+분 )?[0-9]+초))$" "$work/err" || fail "$1 --lang $language shows no progress: $(head -2 "$work/err")"
  done
  LD_PRELOAD=$shim "$heed" "$@" --quiet <"$input" >/dev/null 2>"$work/err"
  [ ! -s "$work/err" ] || fail "$1 --quiet says $(head -1 "$work/err")"
}
shows working '처리 중' "$work/texts" classify "$work/classifier"
shows working '처리 중' "$work/texts" embed "$work/classifier"
shows working '처리 중' "$work/dates" translate "$work/translator"
shows converting '변환하는 중' /dev/null convert "$work/classifier/model" "$work/converted"
shows converting '변환하는 중' /dev/null convert "$work/classifier/model" "$work/converted.gguf"
shows classifying '분류하는 중' /dev/null eval "$work/classifier" --data "$work/reviews.tsv"
shows translating '번역하는 중' /dev/null eval "$work/translator" --data "$work/dates.tsv"
[ $failed = 0 ] && echo passed
exit $failed
