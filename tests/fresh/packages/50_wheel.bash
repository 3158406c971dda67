# The wheel in minimal roots without compiler: Python trains a model, opens it and generates a text.
case $release in
  12) tag=cp311-cp311 ;; # Debian 12's Python is 3.11
  *) tag=cp312-abi3 ;;   # one wheel for 3.12 and newer
esac
try_wheel() {
  local other
  other=$(new_root "$release" "wheel-$1" "$1")
  cp "$2" "$other/tmp"
  inside "$other" root /tmp bash -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv python3-numpy >/dev/null'
  ! inside "$other" root / bash -c 'command -v gcc g++ cc cmake' || fail "there is a compiler"
  inside --offline "$other" minsu /home/minsu bash -c 'python3 -m venv --system-site-packages p && p/bin/pip install -q --no-index /tmp/heed-*.whl'
  cat >"$other/home/minsu/try.py" <<'END'
import pathlib
import time

start = time.monotonic()
import heed

pathlib.Path("text.txt").write_text("the quick brown fox jumps\n" * 50)
heed.train("lm", "text.txt", "run", progress=False, tokenizer="char", layers=1, heads=2, width=32, context=16,
           batch=8, steps=60, lr=0.01)
text = heed.pipeline("text-generation", "run")("the quick", max_new_tokens=6, temperature=0)[0]["generated_text"]
print(f"{text} ({time.monotonic() - start:.1f} s)")
END
  inside --offline "$other" minsu /home/minsu p/bin/python try.py >"$work/said"
  grep -q '^the quick brown ' "$work/said" || fail "$(cat "$work/said")"
  echo "note: $1: $(du -h --apparent-size "$2" | cut -f1), trained and generated: $(sed 's/.*(//; s/)//' "$work/said")"
}
each_package "heed-*-$tag-manylinux_*_ARCH.whl" try_wheel
