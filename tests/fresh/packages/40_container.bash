# The container file, built by buildah where it is installed, and otherwise its steps executed in roots:
# under 120 MB, not root, a read-only root, the health check, and a server that answers and stops.
# Compiling is what ./dev package did: its archive is taken.
[ "$release" = 12 ] || skip "the container file is for Debian 12"
archive=$(ls "$source/dist/heed-"*"-linux-$(uname -m).tar.gz" 2>/dev/null) || skip "dist/ has no archive for this processor"
file=$source/docs/deploy/Containerfile
declare -A stage=()
here= user= check= entrypoint=() command=() folder=/

# words JSON-LIST: its strings, one per line.
words() { grep -oE '"[^"]*"' <<<"$1" | tr -d '"'; }

# slim ROOT: what debian:12-slim leaves out of a minimal root, and what only these tests put into it.
slim() {
  inside "$1" root / apt-get purge -y -qq --autoremove ca-certificates openssl >/dev/null
  rm -rf --one-file-system "$1"/usr/share/{man,info,locale,groff,lintian}/* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*
  find "$1/usr/share/doc" -type f ! -name copyright -delete
  rm -rf --one-file-system "$1"/etc/apt/{auth.conf.d,trusted.gpg*,keyrings} "$1"/usr/local/share/ca-certificates "$1"/var/log/*
}

# by_buildah: the files of the image that buildah makes of the file, in $here. The base image is made of a
# minimal root, since a registry may be out of reach.
by_buildah() {
  local tool=(buildah --root "$work/images" --runroot "$work/images-run" --storage-driver vfs) base container
  base=$(bare_root 12)
  cp -a --reflink=auto "$base" "$work/base"
  rm -rf --one-file-system "$work/base"/usr/share/{man,info,locale,groff,lintian}/* "$work/base"/var/{lib/apt/lists,cache/apt}/*
  find "$work/base/usr/share/doc" -type f ! -name copyright -delete
  container=$("${tool[@]}" from scratch)
  "${tool[@]}" add -q "$container" "$work/base" / >/dev/null
  "${tool[@]}" commit -q "$container" localhost/debian:12-slim >/dev/null
  rm -rf --one-file-system "$work/base"
  git clone -q "$source" "$work/context"
  mkdir "$work/context/dist" && cp "$archive" "$work/context/dist"
  sed -i '/^dist$/d' "$work/context/.dockerignore" # what ./dev package archive would make while the image is built
  sed 's#\./dev package archive#true#; s#^FROM debian:#FROM localhost/debian:#' "$file" >"$work/context/Containerfile"
  "${tool[@]}" build -q --isolation chroot --pull-never --format docker -t heed -f "$work/context/Containerfile" "$work/context" >/dev/null
  container=$("${tool[@]}" from --pull-never localhost/heed)
  here=$("${tool[@]}" mount "$container")
  "${tool[@]}" inspect --type image localhost/heed >"$work/image.json"
  for word in '"User": "65534:65534"' '"8080/tcp"' '"Healthcheck"' '"StopSignal": "SIGTERM"'; do
    grep -qF "$word" "$work/image.json" || fail "the image has no $word"
  done
}
builder=
! command -v buildah >/dev/null || builder=buildah

while read -r instruction rest; do
  case ${builder:+$instruction} in # what buildah does
    FROM | WORKDIR | COPY | RUN) continue ;;
  esac
  case $instruction in
    FROM)
      [[ $rest == "debian:12-slim"* ]] || fail "the base image is $rest"
      here=$(new_root 12 "container-${#stage[@]}") folder=/
      stage[${rest##* }]=$here
      ;;
    WORKDIR) folder=$rest ;;
    COPY)
      read -r from to more <<<"$rest"
      if [ "$from" = . ]; then
        clone_into "$here" "$to"
        mkdir "$here$to/dist" && cp "$archive" "$here$to/dist"
      else
        [ -n "${stage[${from#--from=}]:-}" ] || fail "no stage ${from#--from=}"
        mkdir -p "$here$more" && cp -a "${stage[${from#--from=}]}$to/." "$here$more"
      fi
      ;;
    RUN) inside "$here" root "$folder" bash -c "${rest//.\/dev package archive/true}" ;;
    USER) user=$rest ;;
    HEALTHCHECK) check=${rest#*CMD } ;;
    ENTRYPOINT) mapfile -t entrypoint < <(words "$rest") ;;
    CMD) mapfile -t command < <(words "$rest") ;;
    EXPOSE | STOPSIGNAL) ;;
    *) fail "what is $instruction?" ;;
  esac
done < <(sed -e '/^#/d' -e '/^$/d' -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$file")

if [ -n "$builder" ]; then
  by_buildah
else
  slim "$here"
fi
megabytes=$(($(du -s --apparent-size -B1 "$here" | cut -f1) / 1000000))
[ "$megabytes" -lt 120 ] || fail "the image has $megabytes MB"
mkdir -p "$here/models"
seq 500 | sed 's/$/ is a number and the next one comes after it./' >"$here/tmp/text.txt"
inside --offline "$here" root /tmp heed train --task lm --data text.txt --tokenizer char --layers 1 --heads 2 --width 16 \
  --context 32 --steps 4 --quiet --out /models/lm >/dev/null
echo sesame >"$here/keys"
# A network of its own, so that port 8080 is free.
unshare --net bash -euo pipefail -c "$(declare -f inside)"'
  ip link set lo up
  inside "$@"' _ "$here" root / bash -euo pipefail -c '
  user=$1 check=$2
  shift 2
  mount -o remount,bind,ro /
  setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups --bounding-set=-all --no-new-privs "$@" &
  server=$!
  for try in $(seq 100); do
    sh -c "$check" 2>/dev/null && break
    sleep 0.2
  done
  sh -c "$check" || { echo "FAILED: the health check"; exit 1; }
  ! touch /tmp/x 2>/dev/null || { echo "FAILED: the root can be written"; exit 1; }
  ask() { # KEY: the first line of the answer
    local body="{\"model\": \"lm\", \"prompt\": \"1 is\", \"max_tokens\": 4}"
    exec 3<>/dev/tcp/127.0.0.1/8080
    printf "%s\r\n" "POST /v1/completions HTTP/1.0" "Host: localhost" "Authorization: Bearer $1" \
      "Content-Type: application/json" "Content-Length: ${#body}" "" >&3
    printf %s "$body" >&3
    head -1 <&3
  }
  ask wrong | grep " 401 " || { echo "FAILED: no key is asked for"; exit 1; }
  ask sesame | grep " 200 " || { echo "FAILED: no answer"; exit 1; }
  kill -TERM $server
  wait $server' _ "$user" "$check" "${entrypoint[@]}" "${command[@]}"
echo "note: $megabytes MB${builder:+, built by $builder}"
