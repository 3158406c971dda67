#!/usr/bin/env bash
# TensorBoard's own reader opens the event file and finds every figure. Skips where it is not installed.
set -u
heed=$1
source "$2/tests/support/python.bash"
python=$(python_with tensorboard) || { echo "skipped: no Python with tensorboard"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
for i in $(seq 1 60); do echo "the $i cats sat on the mat ."; done >"$folder/text.txt"
"$heed" train --task lm --data "$folder/text.txt" --tokenizer char --layers 1 --heads 2 --width 16 --context 16 \
  --batch 4 --steps 6 --warmup 1 --eval-every 3 --quiet --out "$folder/run" >/dev/null || exit 1
"$python" - "$folder/run" <<'P'
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = sys.argv[1]
events = EventAccumulator(run)
events.Reload()
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
steps = [line for line in lines if "val_loss" not in line]
losses = events.Scalars("train/loss")
assert [e.step for e in losses] == [line["step"] for line in steps], losses
assert all(abs(e.value - line["loss"]) < 1e-5 for e, line in zip(losses, steps))
evaluations = [line for line in lines if "val_loss" in line and not line.get("final")]
assert [e.step for e in events.Scalars("validation/perplexity")] == [3, 6]
assert all(abs(e.value - line["val_loss"]) < 1e-5 for e, line in zip(events.Scalars("validation/loss"), evaluations))
assert "samples" in " ".join(events.Tags()["tensors"]), events.Tags()
assert b"output:" in events.Tensors("samples")[0].tensor_proto.string_val[0]
P
