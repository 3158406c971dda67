# A user without sudo and without network, where all packages are there, in a path with blanks and
# Korean letters: quickstart in Korean, and an installation into the home folder.
inside "$root" root /heed bash -c 'source tools/packages.bash && apt-get update -qq && table_of 2 build | xargs env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends >/dev/null'
with_ccache "$root"
folder="/home/minsu/내 작업/heed 복사본"
clone_into "$root" "$folder" minsu
seconds_of inside --offline "$root" minsu "$folder" ./dev quickstart --json --lang ko >"$work/answer"
taught "$work/answer"
echo "note: ./dev quickstart took $seconds s, without packages to install"
inside --offline "$root" minsu "$folder" ./dev install "/home/minsu/내 작업/heed 설치"
inside --offline "$root" minsu "$folder" bash -c '
  cmake -S tests/install/consumer -B "../소비자 빌드" -DCMAKE_PREFIX_PATH="/home/minsu/내 작업/heed 설치" -DHEED_TARGET=heed::heed >/tmp/minsu.log && cmake --build "../소비자 빌드" >>/tmp/minsu.log || { cat /tmp/minsu.log; exit 1; }
  "../소비자 빌드/consumer"' | grep -q "kinds of models" || fail "the consumer"
