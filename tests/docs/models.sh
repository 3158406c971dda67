#!/usr/bin/env bash
# docs/models.md and docs/models.ko.md list the architectures of src/models/families.h: all of them, no others.
set -euo pipefail
cd "${2:-$(dirname "$0")/../..}"
bad=0
# HEED_MODEL(vision_encoder_decoder) is the model_type "vision-encoder-decoder" or the name as it is.
known=$(sed -nE 's/^HEED_MODEL\((.*)\)$/\1/p' src/models/families.h | tr '-' '_' | sort)
[ -n "$known" ] || { echo "FAILED: src/models/families.h has no HEED_MODEL"; exit 1; }
for page in docs/models.md docs/models.ko.md; do
  listed=$({ sed -nE 's/^\| `([a-z0-9_-]+)` \|.*/\1/p' "$page"; grep -oE '`heed-[a-z0-9-]+`' "$page" | tr -d '`'; } | grep -vx model_type | tr '-' '_' | sort)
  differ=$(diff <(echo "$known") <(echo "$listed")) || { echo "FAILED: $page (>) and src/models/families.h (<) differ:"; echo "$differ"; bad=1; }
done
[ "$bad" -eq 0 ] || exit 1
echo "both pages list $(wc -l <<<"$known") architectures"
