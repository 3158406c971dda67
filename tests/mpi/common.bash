# For the tests beside this file: mpirun as they need it, small data, comparisons.
heed=$1
set -euo pipefail
if ! command -v mpirun >/dev/null; then
  echo "skipped: mpirun is not installed (package openmpi-bin)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache HEED_CACHE=$work/cache
# Two cores may carry four ranks here, and containers run as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
unset OMPI_COMM_WORLD_SIZE PMIX_RANK PMI_SIZE 2>/dev/null || true

fail() { echo "FAILED: $*" >&2; exit 1; }

# ranks N COMMAND…: one process where N is 1, without mpirun.
ranks() {
  local n=$1
  shift
  if [ "$n" = 1 ]; then "$@"; else mpirun --oversubscribe -n "$n" "$@"; fi
}

ranks 2 "$heed" train --task lm --data "$work" --out "$work/none" >"$work/said" 2>&1 || true
if grep -q 'built without MPI' "$work/said"; then
  echo "skipped: this heed was built without MPI"
  exit 77
fi

# A text of words, the same every time.
awk 'BEGIN { s = 7; for (i = 0; i < 6000; ++i) { s = (s * 1103515245 + 12345) % 2147483648
  printf "%s%s", substr("the cat saw a dog and then it ran home ", 1 + 4 * (s % 9), 4), i % 12 == 11 ? "\n" : "" } }' >"$work/text.txt"
# Pairs of very different lengths: ranks get different numbers of tokens.
awk 'BEGIN { s = 3; for (i = 0; i < 400; ++i) { s = (s * 1103515245 + 12345) % 2147483648; n = 1 + s % 13
  a = ""; b = ""; for (k = 0; k < n; ++k) { d = (s + k * k) % 10; a = a " " d; b = " " d b }
  printf "%s\t%s\n", substr(a, 2), substr(b, 2) } }' >"$work/pairs.tsv"

small=(--layers 2 --heads 2 --width 32 --context 32 --warmup 5 --seed 3 --eval-every 1000 --quiet)
lm=(train --task lm --data "$work/text.txt" --tokenizer char "${small[@]}" --batch 16)

# The losses of the training steps of a run.
losses() { grep -v val_loss "$1/metrics.jsonl" | sed -E 's/.*"loss":([^,]*),.*/\1/'; }

# close A B TOLERANCE: every loss of two runs within it, relative to the loss.
close() {
  [ "$(losses "$1" | wc -l)" -gt 0 ] || fail "$1 has no steps"
  paste <(losses "$1") <(losses "$2") | awk -v tolerance="$3" '
    NF != 2 { print "runs of different length at step " NR; bad = 1 }
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) { worst = d; at = NR } }
    END { printf "largest difference %.2e at step %d\n", worst, at; exit bad || !(worst <= tolerance) }' ||
    fail "losses of $1 and $2 differ by more than $3"
}

# same A B: the weights of two runs, to the bit.
same() { cmp "$1/model/model.safetensors" "$2/model/model.safetensors" || fail "weights of $1 and $2 differ"; }
