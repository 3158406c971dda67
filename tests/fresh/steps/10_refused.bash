# A user who may not install packages is told which ones are missing.
# (The root has none yet; this is the first step.)
clone_into "$root" /home/minsu/heed minsu
code=0
inside "$root" minsu /home/minsu/heed ./dev quickstart >"$work/said" 2>&1 || code=$?
[ "$code" = 1 ] || fail "exit code $code: $(tail -3 "$work/said")"
for package in cmake libhwy-dev libfmt-dev; do
  grep -q "apt-get install.* $package" "$work/said" || fail "nothing about $package: $(cat "$work/said")"
done
[ ! -e "$root/home/minsu/heed/build/CMakeCache.txt" ] || fail "it was configured all the same"
