#!/usr/bin/env bash
# Runs a command under mpirun as two ranks on "two machines" of this one: network namespaces joined
# by a pair of virtual interfaces, each direction held to a rate. Needs root.
#   tools/shaped_link.sh RATE COMMAND…      RATE as tc takes it: 1gbit, 10gbit; none: as fast as it goes
set -euo pipefail
rate=$1
shift
self=$(readlink -f "$0")
# mpirun calls this script in place of ssh.
if [ "$rate" = --enter ]; then
  number=${1##*.}
  shift
  exec ip netns exec "heed$number" unshare --uts bash -c "hostname node$number; $*"
fi
cleanup() { ip netns del heed1 2>/dev/null || true; ip netns del heed2 2>/dev/null || true; }
trap cleanup EXIT
cleanup
ip netns add heed1
ip netns add heed2
ip link add heedv1 netns heed1 type veth peer name heedv2 netns heed2
for i in 1 2; do
  inside=(ip netns exec "heed$i")
  "${inside[@]}" ip addr add "10.77.0.$i/24" dev "heedv$i"
  "${inside[@]}" ip link set lo up
  "${inside[@]}" ip link set "heedv$i" up
  if [ "$rate" != none ]; then
    "${inside[@]}" tc qdisc add dev "heedv$i" root handle 1: htb default 10
    "${inside[@]}" tc class add dev "heedv$i" parent 1: classid 1:10 htb rate "$rate" burst 256k cburst 256k 2>/dev/null
  fi
done
agent=$(mktemp)
trap 'cleanup; rm -f "$agent"' EXIT
printf '#!/bin/bash\nexec bash %q --enter "$@"\n' "$self" >"$agent"
chmod +x "$agent"
ip netns exec heed1 unshare --uts bash -c 'hostname node1; exec "$@"' bash mpirun --allow-run-as-root \
  --mca plm_rsh_agent "$agent" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca mtl ^ofi,psm,psm2 --mca pml ob1 \
  --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none \
  -H 10.77.0.1:1,10.77.0.2:1 -n 2 "$@"
