#!/usr/bin/env bash
# LoRA from the outside: adapters of a decoder, a quantised decoder, an encoder and an encoder-decoder
# are trained, resumed, used, merged and refused for another model; conversations and preferences are
# learned. Where Python has peft, it opens the adapters and gives heed's own logits.
set -u
heed=$1
source_folder=$2
golden=$source_folder/tests/golden/models
source "$(dirname "$0")/../support/expect.bash"
few="--batch 4 --steps 4 --warmup 1 --eval-every 4 --lr 1e-2 --context 32 --quiet"

# A base model of our own with a tokenizer and a chat template.
for i in $(seq 1 80); do echo "the $i cats sat on the mat and saw $((i * 7)) birds ."; done >"$folder/text.txt"
expect 0 "$heed" train --task lm --data "$folder/text.txt" --arch llama --tokenizer bpe:300 --layers 2 --heads 2 \
  --width 32 --ff 64 --context 64 --batch 4 --steps 4 --warmup 1 --eval-every 4 --out "$folder/base" --quiet
base=$folder/base/model
cat >"$base/chat_template.jinja" <<'JINJA'
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
JINJA
expect 0 "$heed" convert "$base" "$folder/base.gguf" --dtype q8_0 --quiet
expect 0 "$heed" generate "$folder/base.gguf" --chat --prompt "cats" --max-tokens 2
expect 0 "$heed" convert "$folder/base.gguf" "$folder/again" --quiet
same "$folder/again/chat_template.jinja" "$base/chat_template.jinja"

# A decoder, with targets all; what was trained is PEFT's file and nothing else.
lora="--lora rank=4,alpha=8,targets=all"
expect 0 "$heed" train --task lm --from "$base" --data "$folder/text.txt" --out "$folder/lm" $lora $few
for file in adapter_config.json adapter_model.safetensors; do
  [ -f "$folder/lm/model/$file" ] || { echo "no $file"; failed=1; }
done
[ -f "$folder/lm/model/model.safetensors" ] && { echo "the base was saved, too"; failed=1; }
expect 0 "$heed" generate "$base" --adapter "$folder/lm" --prompt "the cats" --max-tokens 8
cp "$folder/out" "$folder/with"
expect 0 "$heed" generate "$folder/lm" --prompt "the cats" --max-tokens 8
same "$folder/out" "$folder/with"
expect 0 "$heed" convert "$base" "$folder/merged" --adapter "$folder/lm" --merge --quiet
expect 0 "$heed" generate "$folder/merged" --prompt "the cats" --max-tokens 8
same "$folder/out" "$folder/with"
expect 2 "$heed" convert "$folder/lm" "$folder/other"
says err "--merge adds it to the weights"
expect 2 "$heed" convert "$base" "$folder/other" --merge
says err "has no adapter"

# Stopped and resumed, it ends with the same bits.
expect 0 "$heed" train --task lm --from "$base" --data "$folder/text.txt" --out "$folder/half" $lora $few \
  --checkpoint-every 2
rm -rf "$folder/half/checkpoints/step-000004"
expect 0 "$heed" train --resume --out "$folder/half" --quiet
same "$folder/half/model/adapter_model.safetensors" "$folder/lm/model/adapter_model.safetensors"

# Over quantised weights, which stay as they are.
expect 0 "$heed" train --task lm --from "$folder/base.gguf" --data "$folder/text.txt" --out "$folder/q" $lora $few \
  --recompute
expect 0 "$heed" generate "$folder/base.gguf" --adapter "$folder/q" --prompt "the cats" --max-tokens 8

# Conversations and preferences.
for i in $(seq 1 8); do
  echo "{\"messages\":[{\"role\":\"user\",\"content\":\"saw $i\"},{\"role\":\"assistant\",\"content\":\"the mat\"}]}"
done >"$folder/chat.jsonl"
for i in $(seq 1 8); do
  echo "{\"prompt\":\"saw $i\",\"chosen\":\" birds\",\"rejected\":\" cats sat\"}"
done >"$folder/pairs.jsonl"
expect 0 "$heed" train --task lm --from "$base" --data "$folder/chat.jsonl" --out "$folder/chat" $lora $few
expect 0 "$heed" generate "$folder/chat" --chat --prompt "saw 3" --max-tokens 4
expect 0 "$heed" train --task preference --from "$base" --data "$folder/pairs.jsonl" --out "$folder/dpo" $lora $few
expect 0 "$heed" train --task preference --from "$base" --data "$folder/pairs.jsonl" --out "$folder/dpo_all" $few
rm "$base/chat_template.jinja"
expect 3 "$heed" train --task lm --from "$base" --data "$folder/chat.jsonl" --out "$folder/none" $lora $few
says err "has no chat template, which the conversations in"

# An encoder with a new head, and an encoder-decoder.
"$heed" data coreference --count 40 -o "$folder/classes.tsv" 2>/dev/null
"$heed" data dates --count 40 -o "$folder/dates.tsv" 2>/dev/null
expect 0 "$heed" train --task mlm --data "$folder/text.txt" --tokenizer wordpiece:200 --layers 2 --heads 2 --width 32 \
  --context 32 --batch 4 --steps 2 --warmup 1 --eval-every 2 --out "$folder/bert" --quiet
expect 0 "$heed" train --task classify --from "$folder/bert" --data "$folder/classes.tsv" --out "$folder/classify" \
  --lora rank=2 $few
expect 0 "$heed" eval "$folder/bert" --adapter "$folder/classify" --task classify --data "$folder/classes.tsv"
cp "$folder/out" "$folder/with"
says out accuracy
expect 0 "$heed" train --task translate --data "$folder/dates.tsv" --layers 1 --heads 2 --width 16 --context 32 \
  --batch 4 --steps 2 --warmup 1 --eval-every 2 --eval-texts 2 --out "$folder/dates" --quiet
expect 0 "$heed" train --task translate --from "$folder/dates" --data "$folder/dates.tsv" --out "$folder/dates2" \
  --lora rank=2 $few --eval-texts 2
expect 0 "$heed" translate "$folder/dates2" --text "3 May 2001"

# What cannot be.
expect 2 "$heed" train --task lm --data "$folder/text.txt" --out "$folder/none" --lora rank=2
says err "say from which one"
expect 2 "$heed" train --task lm --from "$base" --data "$folder/text.txt" --out "$folder/none" --lora size=2
says err "'size=2' is not one of rank=N, alpha=X, targets=attention|all"
expect 3 "$heed" generate "$golden/gpt2_lm" --adapter "$folder/lm" --tokenizer "$base" --prompt a
says err "is an adapter of another model"
[ $failed -ne 0 ] && exit 1

source "$source_folder/tests/support/python.bash"
if ! python=$(python_with "peft, transformers, safetensors"); then
  echo "peft is not installed: its part was left out"
  exit 0
fi
"$python" - "$folder" "$heed" <<'PYTHON' 2>"$folder/err" || { tail -20 "$folder/err"; exit 1; }
import json
import subprocess
import sys
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

folder, heed = Path(sys.argv[1]), sys.argv[2]
torch.manual_seed(1)
for name, base, build in (("lm", folder / "base/model", transformers.AutoModelForCausalLM),
                          ("classify", folder / "bert/model", transformers.AutoModelForSequenceClassification)):
    own = folder / name / "model/config.json"  # only an adapter with a head of its own has one
    labels = {"num_labels": len(json.loads(own.read_text())["id2label"])} if own.exists() else {}
    model = build.from_pretrained(base, attn_implementation="eager", **labels)
    model = peft.PeftModel.from_pretrained(model, folder / name / "model").eval()
    inputs = {"input_ids": torch.randint(5, 100, (2, 12))}
    save_file(inputs, folder / "in.safetensors")
    subprocess.run([heed, "forward", str(base), "--adapter", str(folder / name), "--input",
                    str(folder / "in.safetensors"), "--output", str(folder / "out.safetensors"), "--quiet"], check=True)
    mine = load_file(folder / "out.safetensors")["logits"]
    with torch.no_grad():
        theirs = model(**inputs).logits
        model.disable_adapter_layers()
        without = model(**inputs).logits
    error = ((mine - theirs).norm() / theirs.norm()).item()
    assert error < 1e-5, f"{name}: {error}"
    assert (without - theirs).norm() > 1e-3 * theirs.norm(), f"{name}: the adapter does nothing"
    print(f"{name}: peft agrees to {error:.1e}")
PYTHON
echo "adapters: trained, used, merged, opened by peft"
