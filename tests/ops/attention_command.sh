#!/usr/bin/env bash
# heed attention on golden files: exit codes, names of what it writes, refusals.
set -euo pipefail
heed=$1
golden=$2/tests/golden
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

names() { # tensors of a safetensors file
  head -c 4096 "$1" | tr '"' '\n' | grep -aE '^(output|weights|lse|grad_[a-z_]+)$' | sort -u | tr '\n' ' '
}
expect() { # expected actual
  [ "$1" = "$2" ] || { echo "expected '$1', got '$2'"; exit 1; }
}
refuses() { # exit code, words, command…
  local code=$1 words=$2
  shift 2
  set +e
  "$@" >"$out/stdout" 2>"$out/stderr"
  local got=$?
  set -e
  [ "$got" = "$code" ] || { echo "$*: exit $got, wanted $code"; cat "$out/stderr"; exit 1; }
  grep -q -- "$words" "$out/stderr" || { echo "$*: no '$words' in:"; cat "$out/stderr"; exit 1; }
}

"$heed" attention --input "$golden/attention/everything.safetensors" --output "$out/a.safetensors" \
  --causal bottom-right --window 6,-1 --softcap 3 --scale 0.5 --validate --quiet
expect "grad_k grad_mask grad_q grad_v lse output weights " "$(names "$out/a.safetensors")"
for kernel in reference chunked flash; do
  "$heed" attention --input "$golden/attention/plain_d40.safetensors" --output "$out/b.safetensors" \
    --kernel $kernel --chunk 3 --no-weights --quiet
  expect "grad_k grad_q grad_v lse output " "$(names "$out/b.safetensors")"
done
variants=$golden/attention_variants
run() { "$heed" attention --quiet --output "$out/c.safetensors" --input "$@"; }
run "$variants/additive_h2.safetensors" --variant additive
expect "grad_k grad_q grad_v grad_v_score grad_w_key grad_w_query lse output weights " "$(names "$out/c.safetensors")"
run "$variants/longformer.safetensors" --variant longformer --attention-window 4
run "$variants/bigbird_random.safetensors" --variant bigbird --block-size 4
run "$variants/performer_causal.safetensors" --variant performer --causal top-left
run "$variants/fnet_7_12.safetensors" --variant fnet
run "$variants/swin_shift2.safetensors" --variant swin --height 8 --width 12 --window-size 4 --shift 2
expect "grad_k grad_q grad_relative_position_bias_table grad_v output " "$(names "$out/c.safetensors")"

refuses 3 "has no tensor" run "$golden/attention/plain_d40.safetensors" --variant additive
refuses 2 "variant" run "$golden/attention/plain_d40.safetensors" --variant nonsense
refuses 2 "window" run "$golden/attention/plain_d40.safetensors" --window 3
refuses 3 "missing.safetensors" run "$out/missing.safetensors"
