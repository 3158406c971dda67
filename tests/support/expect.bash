# Sourced by tests of commands: a folder for this test, which is removed at its end, and functions that look at
# what a command did. `failed` is 1 once something was wrong.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
failed=0
expect() { # wanted code, then the command; its output is in $folder/out and $folder/err
  local wanted=$1; shift
  "$@" >"$folder/out" 2>"$folder/err"
  local code=$?
  if [ $code -ne "$wanted" ]; then
    echo "exit $code instead of $wanted: $*"; tail -5 "$folder/err"; failed=1
  fi
}
says() { # out or err, words
  grep -q -- "$2" "$folder/$1" || { echo "$1 does not say: $2"; tail -5 "$folder/$1"; failed=1; }
}
same() { # two files
  cmp -s "$1" "$2" || { echo "$1 and $2 differ"; failed=1; }
}
