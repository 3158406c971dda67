# ./dev install, and a program of someone else that uses the library by CMake and by pkg-config.
seconds_of inside "$root" root /heed ./dev install /opt/heed
echo "note: ./dev install took $seconds s"
[ "$(inside "$root" root / /opt/heed/bin/heed --version)" = "heed $(sed -nE 's/^#define HEED_VERSION_[A-Z]+ //p' "$source/include/heed/version.h" | paste -sd.)" ] || fail "the installed program"
for file in share/man/man1/heed.1 share/bash-completion/completions/heed include/heed/heed.h; do
  [ -s "$root/opt/heed/$file" ] || fail "$file is not installed"
done
inside "$root" root /heed bash -c '
  cmake -S tests/install/consumer -B /tmp/consumer -DCMAKE_PREFIX_PATH=/opt/heed -DHEED_TARGET=heed::heed >/tmp/log && cmake --build /tmp/consumer >>/tmp/log || { cat /tmp/log; exit 1; }
  export PKG_CONFIG_PATH=$(dirname "$(find /opt/heed -name heed.pc)")
  g++ -std=c++20 tests/install/consumer/consumer.cc -o /tmp/by-pkg-config $(pkg-config --cflags --libs heed) -Wl,-rpath,"$(dirname "$(find /opt/heed -name libheed.so)")"'
for program in /tmp/consumer/consumer /tmp/by-pkg-config; do
  inside "$root" root / "$program" | grep -q "kinds of models" || fail "$program"
done
