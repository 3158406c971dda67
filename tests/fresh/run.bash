#!/usr/bin/env bash
# The README's commands on fresh machines: minimal Debian roots, a clone, nothing else.
#   ./dev test fresh [12 | 13]… [STEP…]       STEP: a name in tests/fresh/steps, such as quickstart
#   ./dev test packages [12 | 13]… [STEP…]    the same for what ./dev package made: tests/fresh/packages
# Runs where it can: as root, with debootstrap, mount namespaces and a way to Debian's packages.
# HEED_FRESH_FOLDER: where roots are made (8 GB; default /var/tmp). HEED_FRESH_CACHE: keeps bare roots.
# HEED_FRESH_KEEP=1: leaves roots and logs there. HEED_FRESH_CCACHE: a ccache folder, for work on these
# tests only.
#
# A step is a file NN_NAME.bash in one of these folders, run in order of NN with $release and $root (one root per release,
# which the steps share) and the functions of root.bash and of this file. It fails by `fail` or any
# failing command, and is skipped by `skip`. Its second line says what it shows.
set -euo pipefail
cd "$(dirname "$0")"
source=$(cd ../.. && pwd)
source root.bash
source cross.bash

say() { printf '%s\n' "$*" >&2; }
fail() { say "FAILED: $*"; exit 1; }
skip() { say "skipped: $*"; exit 77; }

# seconds_of COMMAND…: how long it takes, in $seconds. Returns its exit code.
seconds_of() {
  local start=$SECONDS code=0
  "$@" || code=$?
  seconds=$((SECONDS - start))
  return $code
}

# taught FILE: the answer of `heed quickstart --json` is right in at least 98 of 100 cases.
taught() {
  local accuracy
  accuracy=$(sed -nE 's/.*"accuracy":([0-9.]+),"pointing.*/\1/p' "$1" | tail -1)
  awk -v a="${accuracy:-0}" 'BEGIN { exit !(a >= 0.98) }' || fail "accuracy '$accuracy': $(tail -3 "$1")"
}

# installed_model: installs heed into /opt/heed of $root, where minsu trains a small language model with it, /home/minsu/run.
installed_model() {
  inside "$root" root /heed ./dev install /opt/heed
  [ -d "$root/home/minsu/run" ] || inside --offline "$root" minsu /home/minsu /opt/heed/bin/heed train --task lm \
    --data /heed/README.md --tokenizer char --preset tiny --steps 60 --quiet --out run
}

# each_package PATTERN COMMAND…: calls COMMAND ARCHITECTURE FILE for the files of dist/ that match PATTERN,
# in which ARCH stands for the processor: amd64 or arm64, or as uname says it. Those of another processor
# run by qemu. Without any file the step is skipped.
each_package() {
  local pattern=$1 architecture file count=0
  shift
  for architecture in amd64 arm64; do
    for file in "$source"/dist/*; do
      case $file in
        */${pattern/ARCH/$architecture} | */${pattern/ARCH/$([ $architecture = amd64 ] && echo x86_64 || echo aarch64)}) ;;
        *) continue ;;
      esac
      count=$((count + 1))
      if [ -z "$(foreign $architecture)" ]; then
        "$@" $architecture "$file"
        continue
      fi
      registered true || skip "programs for $architecture cannot be run: binfmt_misc or qemu-user-static is missing"
      registered "$@" $architecture "$file"
    done
  done
  [ $count -gt 0 ] || skip "dist/ has no $pattern for this release"
}

steps=steps
[ "${1:-}" != packages ] || steps=packages
[ $# -eq 0 ] || shift
releases=() wanted=()
for word in "$@"; do
  case $word in
    12 | 13) releases+=("$word") ;;
    *)
      ls "$steps"/*_"$word".bash >/dev/null 2>&1 || { say "dev: no step '$word'; there are $(ls "$steps" | sed -E 's/^[0-9]+_(.*)\.bash/\1/' | tr '\n' ' ')"; exit 2; }
      wanted+=("$word")
      ;;
  esac
done
[ ${#releases[@]} -gt 0 ] || releases=(12 13)

why_not=
if [ "$(id -u)" != 0 ]; then
  why_not="chroot needs root"
elif ! command -v debootstrap >/dev/null; then
  why_not="debootstrap is not installed and could not be"
elif ! unshare --mount --pid --fork true 2>/dev/null; then
  why_not="no mount namespaces here"
elif ! git -C "$source" rev-parse -q --verify HEAD >/dev/null 2>&1; then
  why_not="the source is no git checkout"
fi
[ -n "$why_not" ] || [ -z "$(git -C "$source" status --porcelain)" ] || say "note: what is not committed is not tested"

work=
if [ -z "$why_not" ]; then
  work=$(mktemp -d "${HEED_FRESH_FOLDER:-/var/tmp}/heed-fresh.XXXXXX")
  chmod 755 "$work"
  # Nothing is mounted outside of the namespaces, so that this deletes nothing of the machine's.
  [ "${HEED_FRESH_KEEP:-}" = 1 ] || trap 'rm -rf --one-file-system "$work"' EXIT
fi

passed=0 failed=0 skipped=0
for release in "${releases[@]}"; do
  root=
  for step in "$steps"/*.bash; do
    name=$(sed -E 's/.*\/[0-9]+_(.*)\.bash/\1/' <<<"$step")
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || continue
    reason=$why_not
    if [ -z "$reason" ] && [ -z "$root" ]; then
      root=$(new_root "$release" main) || { root=; reason="no root of Debian $release could be made"; }
      [ -z "$root" ] || clone_into "$root" /heed
    fi
    if [ -n "$reason" ]; then
      say "  skipped  $release.$name: $reason"
      skipped=$((skipped + 1))
      continue
    fi
    start=$SECONDS code=0
    log=$work/$release.$name.log
    # Its own bash, where `set -e` holds although the caller looks at the code.
    release=$release root=$root work=$work source=$source bash -euo pipefail -c '
      source root.bash
      source cross.bash
      '"$(declare -f say fail skip seconds_of taught installed_model each_package)"'
      source "$1"' _ "$step" >"$log" 2>&1 || code=$?
    note=$(sed -n 's/^note: //p' "$log" | tr '\n' ';' | sed 's/;$//; s/;/; /g')
    case $code in
      0) passed=$((passed + 1)) word=passed ;;
      77) skipped=$((skipped + 1)) word=skipped note=$(sed -n 's/^skipped: //p' "$log" | tail -1) ;;
      *)
        failed=$((failed + 1)) word=failed
        tail -30 "$log" | sed 's/^/    /' >&2
        ;;
    esac
    say "  $word  $release.$name  $((SECONDS - start)) s${note:+  ($note)}"
  done
  [ -z "$root" ] || [ "${HEED_FRESH_KEEP:-}" = 1 ] || rm -rf --one-file-system "$work/$release-"*
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
