#!/usr/bin/env bash
# docs/deploy: the systemd units, socket activation, and replicas behind nginx, one of which stops.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/clients/with_server.sh"
deploy=$source_folder/docs/deploy
command -v python3 >/dev/null || skip "no python3"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ready() { # ready PORT
  for _ in $(seq 600); do
    python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$1/health', timeout=2)" 2>/dev/null && return
    sleep 0.1
  done
  echo "no server on port $1" >&2
  exit 1
}
parts=()
more=() # processes to end
trap 'for each in "${more[@]}"; do kill "$each" 2>/dev/null || true; done; cleanup' EXIT
make_model

# The units say what systemd understands.
if command -v systemd-analyze >/dev/null; then
  mkdir "$work/units"
  cp "$deploy/heed.socket" "$work/units/"
  sed "s#/usr/bin/heed#$(command -v true)#; /^Documentation=/d" "$deploy/heed.service" >"$work/units/heed.service"
  systemd-analyze verify "$work/units/heed.service" "$work/units/heed.socket" >"$work/verify" 2>&1 || { cat "$work/verify" >&2; exit 1; }
  ! grep -i "unknown\|invalid" "$work/verify" || exit 1
  parts+=("units")
fi

# Socket activation: the first connection starts the server, which answers it.
if command -v systemd-socket-activate >/dev/null; then
  port=$(free_port)
  systemd-socket-activate -l "127.0.0.1:$port" "$heed" serve lm="$work/run" --quiet >"$work/activated" 2>&1 &
  activated=$!
  more+=("$activated")
  sleep 0.5
  ready "$port"
  kill -TERM "$activated" # the tool has become the server
  code=0
  wait "$activated" || code=$?
  [ "$code" = 0 ] || { cat "$work/activated" >&2; echo "an activated server ends with $code" >&2; exit 1; }
  parts+=("socket activation")
fi

# Two replicas behind nginx; one drains and stops while requests come in: none is lost.
nginx=$(command -v nginx || ls /usr/sbin/nginx 2>/dev/null || true)
if [ -n "$nginx" ]; then
  first=$(free_port) second=$(free_port) proxy=$(free_port)
  replicas=()
  for each in "$first" "$second"; do
    "$heed" serve lm="$work/run" --port "$each" --allow-host models.example.org --quiet >>"$work/replicas" 2>&1 &
    replicas+=("$!")
    more+=("$!")
  done
  ready "$first"
  ready "$second"
  mkdir "$work/nginx"
  {
    echo "daemon off; pid $work/nginx/pid; error_log $work/nginx/error.log; events {} http { access_log off;"
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/nginx/$kind;"; done
    sed "s/127.0.0.1:8081/127.0.0.1:$first/; s/127.0.0.1:8082/127.0.0.1:$second/; s/listen 443 ssl/listen 127.0.0.1:$proxy/; /ssl_certificate/d" \
      "$deploy/nginx.conf"
    echo "}"
  } >"$work/nginx/nginx.conf"
  chmod 755 "$work" # nginx's workers may be another user
  "$nginx" -c "$work/nginx/nginx.conf" -e "$work/nginx/error.log" &
  more+=("$!")
  sleep 1
  python3 "$here/clients/rolling.py" "$proxy" 9 "${replicas[@]}" || { cat "$work/nginx/error.log" "$work/replicas" >&2; exit 1; }
  code=0
  wait "${replicas[0]}" || code=$?
  [ "$code" = 0 ] || { echo "the replica ends with $code" >&2; exit 1; }
  parts+=("nginx")
fi
[ ${#parts[@]} -gt 0 ] || skip "neither systemd's tools nor nginx"
echo "serve: tried ${parts[*]}"
