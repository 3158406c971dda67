# Debian roots that build heed, for this machine or crosswise for aarch64; sourced after root.bash.
# HEED_FRESH_ROOTS: a folder in which these roots stay from one run to the next, builds included.
# QEMU_CPU: the processor that qemu shows. Unless told: every instruction but SVE, and pointer authentication by a short
# hash instead of the architected cipher, which qemu would compute at every call and return of a hardened program.
export QEMU_CPU=${QEMU_CPU:-max,sve=off,pauth-impdef=on}

# build_root RELEASE ARCHITECTURE: sets $root to the folder of a root with the source in /heed and
# everything that building needs. For arm64 on another machine: the cross compiler, libraries of the
# foreign architecture, and this machine's programs.
build_root() {
  root=${HEED_FRESH_ROOTS:-$work}/$1-$2
  if [ ! -e "$root/ready" ]; then
    rm -rf --one-file-system "$root"
    (work=$(dirname "$root") && new_root "$1" "$2" >/dev/null) || return 1
    install_tools "$1" "$2" || return 1
    touch "$root/ready"
  fi
  if [ -e "$root/heed/.git" ]; then # files that did not change keep their times, and what was built of them stays
    git -C "$root/heed" fetch -q "$source" HEAD && git -C "$root/heed" reset -q --hard FETCH_HEAD
  else
    clone_into "$root" /heed
  fi
}

# install_tools RELEASE ARCHITECTURE: the packages of $root.
install_tools() {
  local packages
  packages=$(cd "$source" && source tools/packages.bash && HEED_RELEASE=$1 table_of 2 build test package python)
  inside "$root" root / bash -euo pipefail -c '
    foreign=$1
    shift
    [ -z "$foreign" ] || dpkg --add-architecture "$foreign"
    apt-get update -qq
    wanted=(ccache)
    [ -z "$foreign" ] || wanted+=("crossbuild-essential-$foreign" dpkg-dev qemu-user "libpython3-dev:$foreign")
    for package in "$@"; do
      case $foreign:$package in
        :*) ;;
        *:build-essential | *:openmpi-bin | *:libopenmpi-dev) continue ;; # MPI cannot be installed for both
        *:lib*-dev) # libraries of headers alone have no architecture
          if apt-cache show "$package:$foreign" >/dev/null 2>&1; then package+=:$foreign; fi
          ;;
      esac
      wanted+=("$package")
    done
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null' \
    _ "$(foreign "$2")" $packages >&2
}

# foreign ARCHITECTURE: its name where it is not this machine's.
foreign() {
  [ "$1" = "$(dpkg --print-architecture)" ] || echo "$1"
}

# registered COMMAND…: runs it while the kernel starts programs for aarch64 by qemu, in every root. A
# registration that is there already is used; one of ours is taken away again. Returns 70 where the
# kernel cannot do that, or qemu-aarch64-static is missing.
registered() {
  local folder=/proc/sys/fs/binfmt_misc code=0 ours= qemu
  if [ "$(uname -m)" = aarch64 ]; then
    "$@"
    return
  fi
  [ -e $folder/register ] || mount -t binfmt_misc binfmt_misc $folder 2>/dev/null || return 70
  if ! grep -qs '^enabled' $folder/qemu-aarch64; then
    qemu=$(command -v qemu-aarch64-static) || return 70
    # F: the interpreter is opened now, so that it need not lie in the roots.
    printf ':qemu-aarch64:M::%s:%s:%s:F' '\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' \
      '\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff' "$qemu" >$folder/register || return 70
    ours=1
  fi
  # Not `"$@" || code=$?`, in which a function would go on after a command that failed.
  set +e
  (
    set -e
    "$@"
  )
  code=$?
  set -e
  [ -z "$ours" ] || echo -1 >$folder/qemu-aarch64
  return $code
}
