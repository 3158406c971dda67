# Sourced by the tests that show models on the page, with HEED as $1 and SOURCE as $2: what they need, a folder $work, and
# explore ARGUMENTS…, which starts the server and sets $server and $url.
heed=$(realpath "$1") source=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../support/server.bash"
source "$here/npm.bash"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || { echo "the browser tests need Node.js 20"; exit 77; }
[ -x /usr/bin/chromium ] || { echo "no browser: apt-get install chromium"; exit 77; }
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

explore() {
  "$heed" explore "$@" --port 0 --no-browser 2>"$work/err" &
  server=$!
  url=$(wait_for_server "$server" "$work/err") || exit 1
}

# Names for the 37 tokens of the golden models, which have none.
golden_vocabulary() { printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'; for i in $(seq 5 36); do echo "w$i"; done; }
# Whisper's start is token 3 in the golden models, and timestamps come behind the token that says there are none.
whisper_vocabulary() { golden_vocabulary | sed -e '4s/.*/<|startoftranscript|>/' -e '30s/.*/<|notimestamps|>/'; }
