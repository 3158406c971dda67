# The README's second command.
code=0
seconds_of inside "$root" root /heed ./dev test >"$work/counts" || code=$?
line=$(tail -1 "$work/counts")
echo "note: ./dev test took ${seconds:-?} s: $line"
[ "$code" = 0 ] && [[ $line =~ ^[0-9]+\ passed,\ 0\ failed,\ [0-9]+\ skipped$ ]] || fail "exit code $code: $line"
