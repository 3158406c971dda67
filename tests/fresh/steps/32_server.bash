# heed serve from the installed program, as a user of a minimal machine: it answers, and it ends when it is told to.
installed_model
inside "$root" minsu /home/minsu bash -euo pipefail -c '
  fail() { echo "$*"; cat err; exit 1; }
  # ask METHOD PATH [BODY]: the whole answer.
  ask() {
    exec 7<>"/dev/tcp/127.0.0.1/$port"
    printf "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s" "$1" "$2" "${#3}" "$3" >&7
    cat <&7
    exec 7>&-
  }
  : >err
  /opt/heed/bin/heed serve run --port 0 2>err &
  for _ in $(seq 600); do
    port=$(sed -nE "s/^listening on http:\/\/127\.0\.0\.1:([0-9]+)$/\1/p" err)
    [ -z "$port" ] || break
    kill -0 $! 2>/dev/null || fail "the server ended before it was ready"
    sleep 0.1
  done
  ask GET /health "" | grep "200 OK" || fail "/health"
  ask POST /v1/completions "{\"prompt\":\"heed is\",\"max_tokens\":20}" >answer
  grep "\"object\":\"text_completion\"" answer || fail "/v1/completions: $(cat answer)"
  kill -TERM $!
  wait $! || fail "the server ended with $?"'
