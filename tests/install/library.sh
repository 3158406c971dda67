#!/usr/bin/env bash
# The library from the outside: installed into an empty prefix, found by CMake and by pkg-config, or as a part of another project,
# every public header alone, and nothing shown that is not meant to be.
set -eu
build=$(dirname "$1")
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

exec 9>"$build/install.lock" # tests run side by side; installing writes to the build folder
flock 9
cmake --build "$build" --target heed_program heed_shared heed_static heed_lessons_shared heed_lessons_static >"$work/log" 2>&1 || { tail -30 "$work/log"; fail "building the libraries"; }
cmake --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || { tail -30 "$work/log"; fail "cmake --install"; }
flock -u 9
prefix=$work/prefix
mv "$prefix" "$work/moved" # it must not matter where it lies
prefix=$work/moved
library=$(find "$prefix" -name libheed.so)
folder=$(dirname "$library")
[ -n "$library" ] && [ -f "$folder/libheed.a" ] || fail "libheed.so and libheed.a"
[ "$("$prefix/bin/heed" --version)" = "heed $(sed -nE 's/^#define HEED_VERSION_[A-Z]+ //p' "$source/include/heed/version.h" | paste -sd.)" ] || fail "the installed program's version"
readelf -d "$library" | grep -q 'SONAME.*libheed\.so\.[0-9]' || fail "libheed.so has no SONAME"

# Only what HEED_API marks is shown (cmake/exports.map): names in namespace heed and nothing of the
# libraries that heed is made of.
nm -D --defined-only "$library" | awk '{print $NF}' >"$work/mangled"
c++filt <"$work/mangled" >"$work/shown"
grep -q '^heed::load_model(' "$work/shown" || fail "heed::load_model is not exported"
grep -q '^typeinfo for heed::Error$' "$work/shown" || fail "heed::Error cannot be caught outside of the library"
strangers=$(grep -vE '^(heed_|_Z(T[A-Za-z0-9_]*|GV)?(Z)?N[KVRO]*4heed)' "$work/mangled" | c++filt || true)
[ -z "$strangers" ] || fail "libheed.so shows what is not its own: $(head -5 <<<"$strangers")"

for header in "$prefix"/include/heed/*.h; do
  echo "#include <heed/$(basename "$header")>" >"$work/alone.cc"
  g++ -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$work/alone.cc" || fail "$(basename "$header") does not compile alone"
done

check_output() { # how it was made, program
  "$2" >"$work/out" || fail "the consumer made by $1 ends with an error"
  for text in "kinds of models" "[1, 1, 3, 4]" "error: there/is/no/such/folder"; do
    grep -qF "$text" "$work/out" || { cat "$work/out"; fail "the consumer made by $1 does not say '$text'"; }
  done
}

for kind in shared static; do
  target=heed::heed component=
  [ $kind = static ] && target=heed::heed_static component=static
  if ! cmake -S "$source/tests/install/consumer" -B "$work/$kind" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
    -DHEED_TARGET=$target -DHEED_COMPONENT=$component >"$work/log" 2>&1 || ! cmake --build "$work/$kind" >>"$work/log" 2>&1; then
    tail -30 "$work/log"
    fail "the consumer of $target"
  fi
  check_output "CMake ($target)" "$work/$kind/consumer"
done
readelf -d "$work/shared/consumer" | grep -q 'NEEDED.*libheed\.so' || fail "the consumer of heed::heed does not use the shared library"
if readelf -d "$work/static/consumer" | grep -q 'NEEDED.*libheed\.so'; then fail "the consumer of heed::heed_static uses the shared library"; fi

# As a part of someone else's project, whose file is compiled without building heed: neither tests nor warnings as errors.
mkdir "$work/part"
cp "$source/tests/install/consumer/consumer.cc" "$work/part"
cat >"$work/part/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(part LANGUAGES CXX)
include(FetchContent)
FetchContent_Declare(heed SOURCE_DIR "$(realpath "$source")")
FetchContent_MakeAvailable(heed)
add_executable(part consumer.cc)
target_link_libraries(part PRIVATE heed::heed)
END
if ! cmake -G Ninja -S "$work/part" -B "$work/part/made" >"$work/log" 2>&1 || ! ninja -C "$work/part/made" CMakeFiles/part.dir/consumer.cc.o >>"$work/log" 2>&1; then
  tail -30 "$work/log"
  fail "heed by FetchContent"
fi
! grep -rq Werror "$work/part/made/_deps/heed-build/werror.rsp" "$work/part/made/build.ninja" || fail "by FetchContent warnings are errors"
! ninja -C "$work/part/made" -t targets all | grep -E '^(test|example|bench)_' || fail "by FetchContent there are tests"

# The folder alone: a program with the shared library needs no headers of others.
flags=$(PKG_CONFIG_LIBDIR=$folder/pkgconfig pkg-config --cflags --libs heed) || fail "pkg-config without other libraries' files"
# shellcheck disable=SC2086
g++ -std=c++20 "$source/tests/install/consumer/consumer.cc" -o "$work/by-pkg-config" $flags -Wl,-rpath,"$folder" || fail "the consumer by pkg-config"
check_output pkg-config "$work/by-pkg-config"
flags=$(PKG_CONFIG_LIBDIR=$folder/pkgconfig pkg-config --static --cflags --libs heed | sed 's/-lheed /-l:libheed.a /')
# shellcheck disable=SC2086
g++ -std=c++20 "$source/tests/install/consumer/consumer.cc" -o "$work/static-by-pkg-config" $flags || fail "the static consumer by pkg-config: $flags"
check_output "pkg-config --static" "$work/static-by-pkg-config"

# The lessons are a library of their own.
cat >"$work/lessons.cc" <<'END'
#include <heed/lessons.h>
#include <iostream>
int main() { std::cout << heed::synthetic_line("dates", {}, 1, false) << "\n"; }
END
g++ -std=c++20 "$work/lessons.cc" -o "$work/lessons" -I"$prefix/include" -L"$folder" -lheed_lessons -lheed -Wl,-rpath,"$folder" || fail "a consumer of libheed_lessons"
"$work/lessons" | grep -qE '[0-9]{4}-[0-9]{2}-[0-9]{2}$' || fail "libheed_lessons gives no date"
if readelf -d "$library" | grep -q lessons; then fail "libheed needs the lessons"; fi
grep -q 'heed::lessons' "$folder"/cmake/heed/heedTargets.cmake || fail "heed::lessons is not exported to CMake"
echo "shared, static and pkg-config consumers work; $(wc -l <"$work/shown") symbols shown"
