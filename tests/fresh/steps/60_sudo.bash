# A user with sudo, in a root of its own: ./dev asks sudo for packages and for nothing else.
other=$(new_root "$release" sudo)
clone_into "$other" /home/minsu/heed minsu
inside "$other" root / bash -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends sudo >/dev/null'
echo 'minsu ALL=(ALL) NOPASSWD: ALL' >"$other/etc/sudoers.d/minsu"
with_ccache "$other"
seconds_of inside "$other" minsu /home/minsu/heed ./dev quickstart --json >"$work/answer"
taught "$work/answer"
echo "note: ./dev quickstart took $seconds s, packages included"
owners=$(find "$other/home/minsu/heed" ! -user "$(stat -c %u "$other/home/minsu")" | head -3)
[ -z "$owners" ] || fail "files that are not the user's: $owners"
