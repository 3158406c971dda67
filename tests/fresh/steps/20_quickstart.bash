# The README's first command as root, with nothing but what debootstrap and a clone brought.
with_ccache "$root"
code=0
seconds_of inside "$root" root /heed ./dev quickstart --json >"$work/answer" 2>"$work/said" || code=$?
cat "$work/said"
[ "$code" = 0 ] || fail "exit code $code"
! grep -qE '^[^ ]+:[0-9]+:[0-9]+: warning:' "$work/said" || fail "the compiler warns"
taught "$work/answer"
echo "note: ./dev quickstart took $seconds s, packages included"
grep -q '^HEED_TESTS:BOOL=OFF' "$root/heed/build/CMakeCache.txt" || fail "tests were configured"
! inside "$root" root / dpkg-query -W libgtest-dev 2>/dev/null || fail "packages of the tests were installed"
[ -s "$root/heed/quickstart/model/model.safetensors" ] || fail "no model: $(ls "$root/heed/quickstart")"

# A second call builds nothing.
inside --offline "$root" root /heed ./dev quickstart --json >"$work/answer" 2>"$work/said"
taught "$work/answer"
! grep -qE 'dev: (installing|built)' "$work/said" || fail "a second call installs or builds: $(cat "$work/said")"
