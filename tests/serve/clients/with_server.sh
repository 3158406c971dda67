# Sourced by tests: heed, source_folder, skip, make_model, which trains a small language model with a
# chat template into $work/run, and start_server OPTION…, which serves it as "lm" and sets port.
heed=$1
source_folder=$2
source "$source_folder/tests/support/server.bash"
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
skip() { echo "skipped: $*"; exit 77; }

make_model() {
  for _ in {1..200}; do echo 'user: the quick brown fox jumps over the lazy dog . assistant: one two three four five . {"name": "light", "arguments": {"on": true, "off": [false]}}'; done >"$work/text"
  "$heed" train --task lm --data "$work/text" --out "$work/run" --tokenizer char --layers 1 --heads 2 \
    --width 32 --ff 64 --context 512 --batch 2 --steps 3 --quiet >"$work/train.log" 2>&1 ||
    { cat "$work/train.log" >&2; exit 1; }
  printf '%s' "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} . {% endfor %}{% if add_generation_prompt %}assistant: {% endif %}" \
    >"$work/run/model/chat_template.jinja"
}

start_server() {
  make_model
  "$heed" serve lm="$work/run" --port 0 "$@" >"$work/out" 2>"$work/err" &
  server=$!
  local url
  url=$(wait_for_server "$server" "$work/err") || exit 1
  port=${url##*:}
}
