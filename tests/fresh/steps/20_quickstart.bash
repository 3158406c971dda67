# The README's first command as root, with nothing but what debootstrap and a clone brought.
[ -z "${HEED_FRESH_CCACHE:-}" ] || inside "$root" root / bash -c "apt-get update -qq && apt-get install -y -qq ccache >/dev/null"
seconds_of inside "$root" root /heed ./dev quickstart --json >"$work/answer"
taught "$work/answer"
echo "note: ./dev quickstart took $seconds s, packages included"
grep -q '^HEED_TESTS:BOOL=OFF' "$root/heed/build/CMakeCache.txt" || fail "tests were configured"
! inside "$root" root / dpkg-query -W libgtest-dev 2>/dev/null || fail "packages of the tests were installed"
[ -s "$root/heed/quickstart/model/model.safetensors" ] || fail "no model: $(ls "$root/heed/quickstart")"

# A second call builds nothing.
inside --offline "$root" root /heed ./dev quickstart --json >"$work/answer" 2>"$work/said"
taught "$work/answer"
! grep -qE 'dev: (installing|built)' "$work/said" || fail "a second call installs or builds: $(cat "$work/said")"
