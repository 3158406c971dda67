#!/usr/bin/env bash
# A folder that heed has written opens in Hugging Face transformers and gives heed's own logits, and
# a GGUF file that heed has written opens in llama.cpp. Skips where Python lacks the packages.
set -euo pipefail
heed=$1
source_folder=$2
source "$source_folder/tests/support/python.bash"
python=$(python_with "torch, transformers, safetensors") || {
  echo "skipped: needs Python with torch, transformers and safetensors"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for case in "$source_folder"/tests/golden/models/*/; do
  name=$(basename "$case")
  case $name in heed_*) continue ;; esac  # heed's own types
  "$heed" convert "$case" "$work/$name" --quiet
  "$heed" forward "$work/$name" --input "$case/inputs.safetensors" --output "$work/$name.out" --quiet
done
"$python" - "$work" "$source_folder/tests/golden/models" <<'PYTHON'
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

transformers.utils.logging.disable_progress_bar()
work, golden = Path(sys.argv[1]), Path(sys.argv[2])
failed = 0
for case in sorted(golden.iterdir()):
    folder = work / case.name
    if case.name.startswith("heed_"):
        continue
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    # Falcon adds ALiBi twice in its eager attention, once in the other.
    kernel = "sdpa" if case.name.startswith("falcon_alibi") else "eager"
    model, report = getattr(transformers, name).from_pretrained(
        folder, attn_implementation=kernel, output_loading_info=True)
    wrong = {kind: names for kind, names in report.items() if names and kind != "error_msgs"}
    if case.name in ("vit_base", "deit_base"):  # transformers adds a fresh pooler
        wrong.pop("missing_keys", None)
    inputs = load_file(case / "inputs.safetensors")
    inputs.pop("return_loss", None)
    extra = {"interpolate_pos_encoding": True} if case.name == "vit_resized" else {}
    with torch.no_grad():
        result = model.eval()(**inputs, **extra)
    mine = load_file(f"{folder}.out")
    key = next(name for name in ("logits", "logits_per_image", "start_logits", "text_embeds", "image_embeds",
                                  "last_hidden_state") if name in mine)
    theirs = result[key]
    real = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    labels = inputs.get("labels", torch.zeros(0))
    if model.config.is_encoder_decoder and "decoder_attention_mask" not in inputs and labels.dim() == 2:
        real = (labels != -100).long()
    if real is not None and theirs.dim() == 3:
        theirs, mine[key] = theirs * real[..., None], mine[key] * real[..., None]
    error = ((theirs - mine[key]).norm() / theirs.norm()).item()
    good = error < 1e-4 and not wrong
    failed += not good
    print(f"{'ok' if good else 'FAILED'} {case.name}: {name}, error {error:.2e} {wrong or ''}")
sys.exit(1 if failed else 0)
PYTHON

# A GGUF file of heed's tells the same story in llama.cpp.
stories=${HEED_SHARED:-}/stories260k
if [ -d "$stories" ] && "$python" -c 'import llama_cpp' 2>/dev/null; then
  "$heed" convert "$stories/stories260K.bin" "$work/stories.gguf" --tokenizer "$stories/tok512.bin" --quiet
  "$python" - "$work/stories.gguf" "$stories/expected_stdout_t0_n200.txt" <<'PYTHON'
import sys

import llama_cpp

model = llama_cpp.Llama(sys.argv[1], verbose=False, n_ctx=256)
told = model("", max_tokens=60, temperature=0.0)["choices"][0]["text"]
expected = open(sys.argv[2]).read()
good = len(told) > 100 and expected.startswith(told)
print("ok llama.cpp" if good else f"FAILED llama.cpp: {told!r}")
sys.exit(0 if good else 1)
PYTHON
fi
