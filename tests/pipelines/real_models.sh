#!/usr/bin/env bash
# Trained models from the folder HEED_MODELS (docs/models.md says where they come from) and a recording
# from HEED_SHARED: Whisper-base hears what faster-whisper hears, and all-mpnet-base-v2 gives sentence-transformers' vectors. Skipped where there is none.
set -euo pipefail
heed=$1
models=${HEED_MODELS:-/nonexistent}
speech=${HEED_SHARED:-}/speech/jfk.flac
tried=0
if [ -f "$models/whisper-base/model.safetensors" ] && [ -f "$speech" ]; then
  heard=$("$heed" transcribe "$models/whisper-base" "$speech" --quiet)
  expected="And so my fellow Americans ask not what your country can do for you, ask what you can do for your country."
  [ "$heard" = "$expected" ] || { echo "FAILED: Whisper heard '$heard'"; exit 1; }
  tried=1
fi
python=${HEED_PYTHON:-python3}
if [ -f "$models/all-mpnet-base-v2/model.safetensors" ] && "$python" -c 'import sentence_transformers' 2>/dev/null; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  printf '%s\n' "A cat sat on the mat." "Attention is all you need." "한국어 문장도 벡터가 됩니다." "x" \
    "The quick brown fox jumps over the lazy dog, and then it sleeps for a very long time in the warm sun." >"$work/texts"
  "$heed" embed "$models/all-mpnet-base-v2" -o "$work/mine.npy" --quiet <"$work/texts"
  "$python" - "$models/all-mpnet-base-v2" "$work" <<'PYTHON'
import sys

import numpy
from sentence_transformers import SentenceTransformer

texts = open(f"{sys.argv[2]}/texts").read().splitlines()
theirs = SentenceTransformer(sys.argv[1], device="cpu").encode(texts)
error = abs(numpy.load(f"{sys.argv[2]}/mine.npy") - theirs).max()
print(f"{'ok' if error < 1e-5 else 'FAILED'} all-mpnet-base-v2: largest difference {error:.1e}")
sys.exit(0 if error < 1e-5 else 1)
PYTHON
  tried=1
fi
[ "$tried" -eq 1 ] || exit 77
echo ok
