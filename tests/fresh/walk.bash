#!/usr/bin/env bash
# walk.bash en|ko LOG [MODELS]: types every command of the README and the lessons, as a newcomer would, and writes each of them
# with all that it printed to LOG, to be read. Fails where one of them fails, where a lesson's program does not print what its
# page quotes, and where a page has a command that is not known here. MODELS: a folder with minilm/ and a language model
# (*.gguf; the largest stands in for the one that the README names), and where they are there all-mpnet-base-v2/,
# whisper-base/ and talk.flac; without it the models that were trained on the way stand in. Needs build/heed and build/examples.
set -uo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
language=$1 log=$(realpath -m "$2") models=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$source/build:$PATH" XDG_CACHE_HOME=$work/cache
readme=README.md pages=$source/docs/tutorial/en
if [ "$language" = ko ]; then
  readme=README.ko.md pages=$source/docs/tutorial/ko
  export LANG=ko_KR.UTF-8
fi
failed=0 count=0
: >"$log"
fail() { echo "FAILED: $*" | tee -a "$log"; failed=1; }

# type_in CODE COMMAND: in the folder of the lesson.
type_in() {
  local code=0 start=$SECONDS
  printf '\n$ %s\n' "$2" >>"$log"
  timeout 900 bash -c "$2" >"$work/said" 2>&1 </dev/null || code=$?
  tr '\r' '\n' <"$work/said" >>"$log"
  printf '(exit code %d, %d s)\n' "$code" $((SECONDS - start)) >>"$log"
  [ "$code" = "$1" ] || fail "exit code $code, not $1: $2"
  count=$((count + 1))
}

# interrupted COMMAND WORD: Ctrl-C as soon as it has printed WORD.
interrupted() {
  local code=0 tries=0
  printf '\n$ %s\n' "$1" >>"$log"
  env --default-signal=INT bash -c "exec $1" >"$work/said" 2>&1 </dev/null & # jobs of a script ignore it otherwise
  local process=$!
  until grep -qE -- "$2" "$work/said" || [ $((tries += 1)) -gt 1200 ] || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
  if [[ $1 == *explore* || $1 == *serve* ]]; then fetch_page "$(grep -oE 'http://[^ ]+' "$work/said" | head -1)"; fi
  kill -INT $process 2>/dev/null
  wait $process || code=$?
  tr '\r' '\n' <"$work/said" >>"$log"
  printf '(Ctrl-C, exit code %d)\n' "$code" >>"$log"
  count=$((count + 1))
  grep -qE -- "$2" "$work/said" || fail "never said '$2': $1"
  [[ $code = 130 || ($1 == *explore* || $1 == *serve*) && $code = 0 ]] || fail "exit code $code after Ctrl-C: $1"
}

fetch_page() { # a minimal system has no curl
  local host=${1#http://}
  exec 3<>"/dev/tcp/${host%%:*}/$(sed -E 's/^[^:]+:([0-9]+).*/\1/' <<<"$host")" || { fail "nobody listens at $1"; return; }
  printf 'GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "${host%%/*}" >&3
  head -1 <&3 | tr -d '\r' >>"$log"
  exec 3<&-
}

# What the pages have: blocks of commands, and commands inside of sentences.
blocks() { awk -v wanted="$1" '/^```/ { on = on ? 0 : substr($0, 4) ~ wanted ? 1 : 2; next } on == 1' "$2" | sed -E 's/^\$ //; s/ +#.*//'; }
inline() { awk '/^```/ { on = !on; next } !on' "$1" | grep -oE '`(heed|\./dev) [^`]+`' | tr -d '`'; }

in_folder() { mkdir -p "$work/$1" && cd "$work/$1" && ln -sfn "$source/build" build && cp "$source"/README*.md .; }

# with_models COMMAND: one of README's commands that need a model which was downloaded.
with_models() {
  local name question='Why is the sky blue? One sentence.'
  [ "$language" = en ] || question='하늘은 왜 파랗습니까? 한 문장으로 답하십시오.'
  for name in all-mpnet-base-v2 whisper-base talk.flac; do [ ! -e "$models/$name" ] || ln -sfn "$models/$name" .; done
  [ -z "$models" ] || ln -sfn "$(find -L "$models" -maxdepth 1 -name '*.gguf' -printf '%s %p\n' | sort -n | tail -1 | cut -d' ' -f2)" qwen2.5-1.5b-instruct-q4_k_m.gguf
  mkdir -p notes && cp "$pages"/0[1-4]-*.md notes/
  for name in $(grep -oE 'qwen[^ ]*|whisper-base|all-mpnet[^ ]*|[^ ]*\.flac' <<<"$1"); do
    [ -e "$name" ] || { printf '\n(not typed, %s is not here: %s)\n' "$name" "$1" >>"$log"; return; }
  done
  case $1 in
    heed\ chat*) type_in 0 "echo '$question' | $1 --max-tokens 60" ;;
    heed\ serve*) interrupted "$1" 'http://' ;;
    *) type_in 0 "$1" ;;
  esac
}

walk_readme() {
  printf '\n## %s\n' "$readme" >>"$log"
  in_folder readme
  type_in 3 "heed generate gpt2 --prompt 'The meaning of life is'" # nothing was downloaded yet
  local command
  while IFS= read -r command; do
    case $command in export*) ;; *) type_in 0 "$command" ;; esac
  done < <(blocks '^sh$' "$source/$readme")
  cp -r run/model gpt2
  while IFS= read -r command; do
    case $command in
      ./dev\ quickstart* | export*) ;; # the step before has built it
      heed\ explore*) interrupted "$command --no-browser" 'http://' ;;
      *qwen* | *whisper* | *mpnet*) with_models "$command" ;;
      *) type_in 0 "$command" ;;
    esac
  done < <(blocks '^console$' "$source/$readme")
  type_in 0 "heed quickstart"
  for command in --help "train --help" "train --list-presets" "--version --verbose" cache; do type_in 0 "heed $command"; done
}

# lesson NUMBER: its program, and its commands with something in place of MODEL, FOLDER and the like.
lesson() {
  local page command line
  page=$(echo "$pages/$1"-*.md)
  in_folder "$1"
  printf '\n## %s\n' "$(head -1 "$page")" >>"$log"
  ln -sfn "$encoder" minilm
  while IFS= read -r command; do
    [[ $command != *" README.md" ]] || type_in 0 "$command" # the page quotes what it prints without a file
    type_in 0 "${command% README.md}"
    while IFS= read -r line; do # numbers are a machine's own: examples/check.sh knows how far they may differ
      [ -z "$line" ] || grep -qE -- "$(sed -E 's/[][\\.^$*+?(){}|]/\\&/g; s/ *-?[0-9]+(\\\.[0-9]+)?/ *-?[0-9.]+/g; s/.*/^&$/' <<<"$line")" "$work/said" || fail "$command does not print: $line"
    done < <(awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' "$page")
  done < <(blocks '^bash$' "$page")
  while IFS= read -r command; do typed_in_lesson "$command"; done < <(inline "$page")
}

typed_in_lesson() {
  local tiny='heed train --task lm --data README.md --tokenizer char --preset tiny --steps 4'
  case $1 in
    "heed explore MODEL") interrupted "heed explore minilm --no-browser" 'http://' ;;
    "heed inspect MODEL"*) type_in 0 "$(sed 's/MODEL/minilm/; s/…/The cat sat on the mat/' <<<"$1")" ;;
    "heed data plus-two"* | "heed train --task regress"* | "heed predict run 10"* | "heed cost"*) type_in 0 "$1" ;;
    "heed predict run < rows.csv")
      printf '1,2,3,4,5\n60,70,80,90,95\n' >rows.csv
      type_in 0 "$1"
      ;;
    "heed train --task classify --data reviews.tsv --out run")
      for i in $(seq 150); do printf 'positive\t%s %d\nnegative\t%s %d\n' 'this film was wonderful, part' "$i" '이 영화는 지루했다, 편' "$i"; done >reviews.tsv
      type_in 0 "$1"
      ;;
    "heed classify run") type_in 0 "echo 'this film was wonderful' | $1" ;;
    "heed train --task caption --data FOLDER --out run")
      type_in 0 "heed data shapes --count 200 -o FOLDER"
      type_in 0 "$1 --steps 30"
      ;;
    "heed inspect run --image picture.png"*)
      cp "$(find FOLDER -name '*.p[np][gm]' | sort | head -1)" picture.png
      type_in 0 "$1"
      ;;
    "heed train --task lm --data mytext.txt --tokenizer char --preset small --out run")
      cat "$source"/docs/*.md "$source"/docs/*/*.md >mytext.txt
      interrupted "$1" '(step|스텝) [2-9]'
      interrupted "heed train --resume --out run" '(step|스텝) [4-9]'
      ;;
    "heed generate run"*) type_in 0 "$1 --max-tokens 40" ;;
    "heed train … --"*) type_in 0 "$tiny --out run$count --${1##* --}" ;;
    "heed ask INDEX QUESTION --model LM --show-attention")
      type_in 0 "heed index $pages --model minilm --out INDEX"
      local why='Why are there several heads?' hides='What does the causal mask hide?'
      [ "$language" = en ] || why='헤드는 왜 여럿입니까?' hides='인과 마스크는 무엇을 가립니까?'
      type_in 0 "heed search INDEX '$why' -k 2"
      [ -z "$reader" ] || type_in 0 "heed ask INDEX '$hides' --model $reader --show-attention --max-tokens 60"
      ;;
    "heed train --task fid")
      printf '{"question":"When was it built?","ctxs":[{"title":"Tower","text":"It was built in 1889."},{"title":"Tower","text":"It is tall."}],"answers":["1889"]}\n%.0s' $(seq 20) >fid.jsonl
      type_in 0 "$1 --data fid.jsonl --tokenizer wordpiece:100 --layers 1 --heads 2 --width 16 --steps 3 --out fid"
      ;;
    "heed train --task embed")
      printf 'how tall is it\tIt is 330 metres tall.\nwhen was it built\tIt was built in 1889.\n%.0s' $(seq 20) >pairs.tsv
      type_in 0 "$1 --data pairs.tsv --tokenizer wordpiece:100 --layers 1 --heads 2 --width 16 --steps 3 --out embed"
      ;;
    "heed train --task mlm --arch longformer") type_in 0 "$1 --data README.md --tokenizer wordpiece:300 --layers 1 --heads 2 --width 16 --context 64 --steps 3 --out run" ;;
    *) [[ $1 =~ ^heed\ [a-z]+$ ]] || fail "a page has a command that is not known here: $1" ;; # the name of a command alone
  esac
}

walk_readme
encoder=$work/readme/quickstart/model reader=
[ ! -e "$models/minilm/config.json" ] || encoder=$(realpath "$models/minilm")
[ -z "$models" ] || reader=$(find -L "$models" -maxdepth 1 -name '*.gguf' | sort | head -1)
for page in "$pages"/[0-9]*.md; do lesson "$(basename "$page" | cut -c1-2)"; done
echo "$language: $count commands typed; $log"
exit $failed
