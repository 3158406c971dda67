# heed explore from the installed program, in Debian's Chromium: the page runs the model and shows what it predicts, in both
# languages. (What a person does on the page is tested by ./dev test, where Node.js can be had.)
installed_model
inside "$root" root /heed bash -euo pipefail -c '
  source tools/packages.bash
  apt-get update -qq
  table_of 2 browser | grep -x chromium | DEBIAN_FRONTEND=noninteractive xargs apt-get install -y -qq --no-install-recommends >/dev/null'
inside "$root" minsu /home/minsu bash -euo pipefail -c '
  fail() { echo "$*"; cat err; exit 1; }
  : >err
  /opt/heed/bin/heed explore run --port 0 --no-browser 2>err &
  for _ in $(seq 600); do
    url=$(sed -nE "s/^listening on (http:.*)$/\1/p" err)
    [ -z "$url" ] || break
    kill -0 $! 2>/dev/null || fail "the server ended before it was ready"
    sleep 0.1
  done
  for language in en ko; do
    chromium --headless --no-sandbox --disable-gpu --accept-lang=$language --virtual-time-budget=30000 --dump-dom "$url" >page.$language 2>chromium.log ||
      { tail -3 chromium.log; fail "Chromium"; }
    grep -q "<html lang=\"$language\"" page.$language || fail "the language of the page: $(head -c 200 page.$language)"
    candidates=$(grep -oE "<ol class=\"bars.*" page.$language | grep -o "<li" | wc -l)
    [ "$candidates" -ge 10 ] || fail "$candidates predicted tokens in $language"
  done
  kill $!'
