# The library's packages: lintian without errors, and a program of someone else by CMake and by
# pkg-config, on this machine's processor.
try_lintian() { lintian --fail-on error --no-tag-display-limit "$2"; }
each_package "libheed*+deb${release}_ARCH.deb" try_lintian
ls "$source"/dist/libheed*+deb"${release}_$(dpkg --print-architecture)".deb >/dev/null 2>&1 || skip "no packages for this processor"
cp "$source"/dist/libheed*+deb"${release}_$(dpkg --print-architecture)".deb "$root/tmp"
cp -r "$source/tests/install/consumer" "$root/tmp/consumer"
inside "$root" root /tmp bash -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ./libheed*.deb g++ make cmake pkg-config >/dev/null'
inside --offline "$root" minsu /home/minsu bash -c '
  cmake -S /tmp/consumer -B made -DHEED_TARGET=heed::heed && cmake --build made && made/consumer &&
  g++ -std=c++20 /tmp/consumer/consumer.cc -o by-pkg-config $(pkg-config --cflags --libs heed) && ./by-pkg-config' >"$work/said"
[ "$(grep -c 'kinds of models' "$work/said")" = 2 ] || fail "$(tail -5 "$work/said")"
