# Sourced by tests. wait_for_server PID FILE: waits until the server's standard error in FILE says where it listens, and prints
# that address; prints the file and fails where the server ends before.
wait_for_server() {
  local url
  for _ in $(seq 600); do
    url=$(sed -nE 's/^listening on (http:.*)$/\1/p' "$2" 2>/dev/null || true) # the shell in the background may open it later
    if [ -n "$url" ]; then echo "$url"; return 0; fi
    kill -0 "$1" 2>/dev/null || break
    sleep 0.05
  done
  cat "$2" >&2
  return 1
}
