#!/usr/bin/env bash
# Trains on this machine, or on those of a host file, and starts again from the last checkpoint
# where a rank, a machine or the power fails.
#   docs/launch/bash.sh RANKS [--hostfile FILE] -- --task lm --data input.txt --out run …
# heed and the data must be at the same path on every machine; --out is written by rank 0 only.
set -uo pipefail
ranks=$1
shift
launch=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  launch+=("$1")
  shift
done
shift
# A machine that falls silent is noticed within a minute (Open MPI's own default is over five). Ctrl-C
# leaves a second to save, which is Open MPI's default: odls_base_sigkill_timeout would give more, but
# mpirun then takes longer than a minute to end after a rank was killed.
settings=(--mca oob_tcp_keepalive_time 20 --mca oob_tcp_keepalive_intvl 5 --mca oob_tcp_keepalive_probes 5)
stopped=
trap 'stopped=1' INT TERM
for attempt in $(seq "${HEED_ATTEMPTS:-20}"); do
  # --resume starts afresh where there is no checkpoint yet.
  mpirun -n "$ranks" "${launch[@]}" "${settings[@]}" "${HEED:-heed}" train "$@" --resume
  code=$?
  # 0: done. 2 and 3: options or data are wrong, and would be again. 130: someone stopped it.
  case $code in 0 | 2 | 3 | 130) exit "$code" ;; esac
  [ -z "$stopped" ] || exit 130
  echo "attempt $attempt ended with code $code; going on from the last checkpoint in 5 s" >&2
  sleep 5
done
exit "$code"
