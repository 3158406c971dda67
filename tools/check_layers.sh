#!/usr/bin/env bash
# Who may include whom. A room may include itself, the rooms named for it here and what these may
# include in turn; a public header counts as its room. Prints every violation; exit 1 where there is
# one.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A direct=(
  [base]="" [kernels]="base" [tensor]="base" [autograd]="tensor kernels" [ops]="autograd kernels"
  [nn]="ops io" [io]="tensor" [text]="base io" [models]="nn io" [data]="tensor text io"
  [dist]="tensor" [train]="models data dist generate inspect" [generate]="models text" [inspect]="models text"
  [pipelines]="generate inspect data models text"
  [serve]="pipelines retrieval" [retrieval]="pipelines dist data"
)
declare -A room_of=(
  [error.h]=base [export.h]=base [version.h]=base [half.h]=base [memory.h]=base [parallel.h]=base [random.h]=base
  [tensor.h]=tensor [audio.h]=tensor [autograd.h]=autograd [ops.h]=ops [attention.h]=ops [io.h]=io [text.h]=text [chat.h]=text
  [nn.h]=nn [transformer.h]=nn [precision.h]=nn [attention_layers.h]=nn [models.h]=models [model_spec.h]=models [data.h]=data [dist.h]=dist [train.h]=train
  [image.h]=io [json.h]=io [teaching.h]=data [optim.h]=train [coreference.h]=train [metrics.h]=train [generate.h]=generate [inspect.h]=inspect [pipelines.h]=pipelines [serve.h]=serve [retrieval.h]=retrieval [picture.h]=inspect
)

declare -A allowed
reach() { # room -> all rooms below it
  local room=$1 below
  for below in ${direct[$room]}; do
    case " ${allowed[$2]} " in
      *" $below "*) ;;
      *) allowed[$2]+=" $below"; reach "$below" "$2" ;;
    esac
  done
}
for room in "${!direct[@]}"; do
  allowed[$room]=$room
  reach "$room" "$room"
done

bad=0
complain() { echo "layers: $*" >&2; bad=1; }

check_include() { # file room included
  local file=$1 room=$2 include=$3 target
  case $include in
    heed/*)
      target=${room_of[${include#heed/}]:-}
      [ -n "$target" ] || { complain "$file includes $include, whose room tools/check_layers.sh does not know"; return; }
      ;;
    */*) target=${include%%/*} ;;
    *) return ;;
  esac
  [ -n "${direct[$target]+known}" ] || return 0
  case " ${allowed[$room]} " in
    *" $target "*) ;;
    *) complain "$file ($room) includes $include ($target); $room may use: ${direct[$room]:-nothing}" ;;
  esac
}

while IFS=: read -r file _ line; do
  include=${line#*\"}
  include=${include%%\"*}
  case $file in
    src/*) room=${file#src/}; room=${room%%/*} ;;
    include/heed/*) room=${room_of[${file#include/heed/}]:-}
      [ "$file" = include/heed/heed.h ] && continue
      [ -n "$room" ] || { complain "$file has no room in tools/check_layers.sh"; continue; } ;;
    examples/*) case $include in heed/*) ;; *) complain "$file includes $include; examples use only heed/*.h" ;; esac; continue ;;
  esac
  check_include "$file" "$room" "$include"
done < <(grep -rnE '^#include "' src include examples 2>/dev/null)

# mpi.h in one file; JSON, CLI and HTTP in no public header.
others=$(grep -rlE '#include <mpi\.h>' src apps include 2>/dev/null | grep -v '^src/dist/mpi\.cc$' || true)
[ -z "$others" ] || complain "mpi.h belongs to src/dist/mpi.cc only: $others"
heavy=$(grep -rlE '#include <(nlohmann|CLI|boost|fmt|toml)' include 2>/dev/null || true)
[ -z "$heavy" ] || complain "heavy headers in public headers: $heavy"

# A file beyond 450 lines holds a second idea.
while read -r lines file; do
  [ "$lines" -le 450 ] || complain "$file has $lines lines; split it by idea"
done < <(git ls-files '*.cc' '*.h' 2>/dev/null | xargs -r wc -l | awk '$2 != "total"')
exit $bad
