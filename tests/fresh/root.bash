# Minimal Debian roots for run.bash: made by debootstrap, with this machine's way to its packages, and
# entered by chroot in namespaces of their own, so that nothing stays mounted or running.

declare -A codename=([12]=bookworm [13]=trixie)

# mirror_of "" | -security: where this machine gets Debian's packages (or its security updates) from.
mirror_of() {
  local own uri
  own=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
  uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk -v release="$own$1" '$2 == release && $3 == "main" { print $1; exit }')
  echo "${uri:-http://deb.debian.org/debian${1:+$1}}"
}

# take_over_apt ROOT CODENAME: mirrors, proxy, certificates and keys of this machine.
take_over_apt() {
  local root=$1 suite=$2 file
  rm -f "$root/etc/apt/sources.list"
  {
    echo "deb $(mirror_of "") $suite main"
    echo "deb $(mirror_of "") $suite-updates main"
    echo "deb $(mirror_of -security) $suite-security main"
  } >"$root/etc/apt/sources.list.d/outer.list"
  # The outer settings about fetching; those about its own hooks and programs do not belong here.
  apt-config dump | grep -E '^Acquire::(https?|ftp|tor|Retries|ForceIPv[46]|Queue-Mode|Check-[A-Za-z-]+)\b.* ".+";$' \
    >"$root/etc/apt/apt.conf.d/90outer" || true
  if ! grep -q '^Acquire::http::Proxy ' "$root/etc/apt/apt.conf.d/90outer" && [ -n "${http_proxy:-}" ]; then
    echo "Acquire::http::Proxy \"$http_proxy\";" >>"$root/etc/apt/apt.conf.d/90outer"
  fi
  if ! grep -q '^Acquire::https::Proxy ' "$root/etc/apt/apt.conf.d/90outer" && [ -n "${https_proxy:-}" ]; then
    echo "Acquire::https::Proxy \"$https_proxy\";" >>"$root/etc/apt/apt.conf.d/90outer"
  fi
  for file in $(grep -oE '"/[^"]+"' "$root/etc/apt/apt.conf.d/90outer" | tr -d '"'); do # such as CaInfo
    [ ! -f "$file" ] || install -D "$file" "$root$file"
  done
  for file in auth.conf auth.conf.d trusted.gpg trusted.gpg.d keyrings; do
    [ ! -e "/etc/apt/$file" ] || cp -a "/etc/apt/$file" "$root/etc/apt/"
  done
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
  [ ! -s /etc/ssl/certs/ca-certificates.crt ] || install -D -m644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
}

# bare_root RELEASE [ARCHITECTURE]: prints the folder of a minimal root that nothing may change; made
# once per run, or kept in $HEED_FRESH_CACHE. A foreign architecture needs registered() (cross.bash).
bare_root() {
  local suite=${codename[$1]} folder=${HEED_FRESH_CACHE:-$work}/bare-$1${2:+-$2} proxy=
  if [ ! -e "$folder/complete" ]; then
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    rm -rf --one-file-system "$folder"
    mkdir -p "$folder"
    http_proxy=${http_proxy:-$proxy} debootstrap ${2:+"--arch=$2"} --variant=minbase --include=ca-certificates "$suite" "$folder" \
      "$(mirror_of "")" >"$work/debootstrap.log" 2>&1 || { tail -3 "$work/debootstrap.log" >&2; return 1; }
    take_over_apt "$folder" "$suite"
    touch "$folder/complete"
  fi
  echo "$folder"
}

# registries: the machines that a root may reach: Debian's mirrors, PyPI and npm, or what this machine has
# in their place.
registries() {
  {
    mirror_of "" && mirror_of -security
    printf '%s\n' "${PIP_INDEX_URL:-https://pypi.org}" https://files.pythonhosted.org \
      "${npm_config_registry:-https://registry.npmjs.org}" "${http_proxy:-}" "${https_proxy:-}"
    apt-config dump | sed -nE 's/^Acquire::https?::Proxy "(.*)";/\1/p'
  } | sed -nE 's#^[a-z]+://([^@/]*@)?([^:/]+).*#\2#p' | sort -u
}

# reach_registries ROOT: the names of all other machines lead nowhere in it, so that nothing there depends
# on one. (A proxy finds names by itself.) Where the mirror sends apt on to others, all names are left.
reach_registries() {
  local name
  cp "$1/etc/hosts" "$1/etc/nsswitch.conf" "$1/tmp"
  for name in $(registries); do
    getent ahosts "$name" | awk -v name="$name" '$2 == "STREAM" { print $1, name }' || true
  done >>"$1/etc/hosts"
  sed -i 's/^hosts:.*/hosts: files/' "$1/etc/nsswitch.conf"
  : >"$1/etc/resolv.conf"
  mkdir -p "$1/tmp/lists/partial"
  if ! inside "$1" root / apt-get -qq -o APT::Update::Error-Mode=any -o Dir::State::Lists=/tmp/lists update >/dev/null 2>&1; then
    echo "note: the mirror needs names of other machines, which can be reached" >&2
    cp "$1/tmp/hosts" "$1/tmp/nsswitch.conf" "$1/etc"
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
  fi
  rm -rf --one-file-system "$1"/tmp/{hosts,nsswitch.conf,lists}
}

# new_root RELEASE NAME [ARCHITECTURE]: prints the folder of a copy of the bare root with a user of each
# kind: minsu, and root. The source is cloned by clone_into.
new_root() {
  local bare root=$work/$1-$2
  bare=$(bare_root "$1" ${3:+$(foreign "$3")}) || return 1
  cp -a --reflink=auto "$bare" "$root"
  cp -L --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
  echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/90fresh" # a root that is thrown away needs no fsync
  chroot "$root" useradd -m -s /bin/bash minsu
  [ -n "${3:+$(foreign "$3")}" ] || reach_registries "$root"
  echo "$root"
}

# clone_into ROOT FOLDER [USER]: a clone of the source as it is committed.
clone_into() {
  mkdir -p "$1$(dirname "$2")"
  git clone -q --no-hardlinks "$source" "$1$2"
  [ -z "${3:-}" ] || chroot "$1" chown -R "$3:" "$(dirname "$2")"
}

# with_ccache ROOT: ccache, where HEED_FRESH_CCACHE names its folder.
with_ccache() {
  [ -z "${HEED_FRESH_CCACHE:-}" ] || inside "$1" root / bash -c "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ccache >/dev/null"
}

# inside [--offline] ROOT USER FOLDER COMMAND…: runs a command in a root as that user, in an environment
# as after logging in; --offline: without any network but its own loopback.
inside() {
  local spaces=(--mount --pid --fork --kill-child) home=/root variable kept=() offline=
  if [ "$1" = --offline ]; then
    spaces+=(--net) offline=1
    shift
  fi
  [ "$2" = root ] || home=/home/$2
  for variable in http_proxy https_proxy no_proxy PIP_INDEX_URL npm_config_registry QEMU_CPU; do
    [ -z "${!variable:-}" ] || kept+=("$variable=${!variable}")
  done
  if [ -n "${HEED_FRESH_CCACHE:-}" ]; then # for work on these tests; times mean nothing then
    kept+=(CCACHE_DIR=/ccache "CCACHE_BASEDIR=$3" CCACHE_NOHASHDIR=1 CCACHE_UMASK=000
      CCACHE_SLOPPINESS=include_file_ctime,include_file_mtime,locale,pch_defines,time_macros)
  fi
  offline=$offline unshare "${spaces[@]}" bash -c '
    set -e
    root=$1 user=$2 folder=$3 home=$4 kept=$5
    shift 5
    [ -z "$offline" ] || ip link set lo up || true
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -o remount,bind,suid,exec,dev "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    if [ -n "${HEED_FRESH_CCACHE:-}" ]; then
      mkdir -p "$root/ccache" "$HEED_FRESH_CCACHE"
      mount --bind "$HEED_FRESH_CCACHE" "$root/ccache"
      chmod 777 "$root/ccache"
    fi
    exec chroot --userspec="$user:" "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      HOME="$home" USER="$user" LANG=C.UTF-8 TERM=dumb SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
      PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
      "${@:1:kept}" bash -c "cd \"\$1\" && shift && exec \"\$@\"" _ "$folder" "${@:kept+1}"' \
    _ "$1" "$2" "$3" "$home" "${#kept[@]}" "${kept[@]}" "${@:4}"
}
