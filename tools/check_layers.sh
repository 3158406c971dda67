#!/usr/bin/env bash
# Who may include whom. A module may include itself, the modules listed for it here and what these may
# include in turn; a public header counts as its module. Prints every violation; exit 1 where there is
# one.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A direct=(
  [base]="" [kernels]="base" [tensor]="base" [autograd]="tensor kernels" [ops]="autograd kernels"
  [nn]="ops io" [io]="tensor kernels" [text]="base io" [models]="nn io" [data]="tensor text io"
  [dist]="tensor" [train]="models data dist generate inspect draw" [generate]="models text" [inspect]="models text" [draw]="base io"
  [pipelines]="generate inspect data models text"
  [explore]="pipelines inspect generate data draw" [serve]="pipelines retrieval explore" [retrieval]="pipelines dist data"
  [lessons]="train draw"
)
declare -A module_of=(
  [runtime.h]=base [version.h]=base [tensor.h]=tensor [ops.h]=ops [attention.h]=ops
  [io.h]=io [text.h]=text [nn.h]=nn [transformer.h]=nn [models.h]=models [data.h]=data [train.h]=train
  [generate.h]=generate [inspect.h]=inspect [picture.h]=draw [pipelines.h]=pipelines
  [retrieval.h]=retrieval [serve.h]=explore [lessons.h]=lessons
)

declare -A allowed
reach() { # module -> all modules below it
  local module=$1 below
  for below in ${direct[$module]}; do
    case " ${allowed[$2]} " in
      *" $below "*) ;;
      *) allowed[$2]+=" $below"; reach "$below" "$2" ;;
    esac
  done
}
for module in "${!direct[@]}"; do
  allowed[$module]=$module
  reach "$module" "$module"
done

bad=0
complain() { echo "layers: $*" >&2; bad=1; }

check_include() { # file module included
  local file=$1 module=$2 include=$3 target
  case $include in
    heed/*)
      target=${module_of[${include#heed/}]:-}
      [ -n "$target" ] || { complain "$file includes $include, whose module tools/check_layers.sh does not know"; return; }
      ;;
    */*) target=${include%%/*} ;;
    *) return ;;
  esac
  [ -n "${direct[$target]+known}" ] || return 0
  case " ${allowed[$module]} " in
    *" $target "*) ;;
    *) complain "$file ($module) includes $include ($target); $module may use: ${direct[$module]:-nothing}" ;;
  esac
}

while IFS=: read -r file _ line; do
  include=${line#*\"}
  include=${include%%\"*}
  case $file in
    src/*) module=${file#src/}; module=${module%%/*} ;;
    include/heed/*) module=${module_of[${file#include/heed/}]:-}
      [ "$file" = include/heed/heed.h ] && continue
      [ -n "$module" ] || { complain "$file has no module in tools/check_layers.sh"; continue; } ;;
    examples/*) case $include in heed/* | lesson.h) ;; *) complain "$file includes $include; examples use only heed/*.h and lesson.h" ;; esac; continue ;;
  esac
  check_include "$file" "$module" "$include"
done < <(grep -rnE '^#include "' src include examples 2>/dev/null)

# mpi.h in one file; JSON, CLI and HTTP in no public header.
others=$(grep -rlE '#include <mpi\.h>' src apps include 2>/dev/null | grep -v '^src/dist/mpi\.cc$' || true)
[ -z "$others" ] || complain "mpi.h belongs to src/dist/mpi.cc only: $others"
heavy=$(grep -rlE '#include <(nlohmann|CLI|boost|fmt|toml)' include 2>/dev/null || true)
[ -z "$heavy" ] || complain "heavy headers in public headers: $heavy"
# One JSON type (docs/adr/0024-one-json-type.md): the parser's own stays behind these doors.
others=$(grep -rlE 'nlohmann|adopt_json|#include "io/json(_document)?\.h"' src apps include python/src 2>/dev/null |
  grep -vE '^src/(io/|text/|generate/json_schema|serve/(constraint|tool_calls)\.cc$)' || true)
[ -z "$others" ] || complain "these use the parser's JSON type instead of heed::Json: $others"

# A file beyond 450 lines holds a second idea. A public header may have 600: it is one topic, which a reader looks up by
# its name, and its length is that of its comments.
while read -r lines file; do
  case $file in include/heed/*) most=600 ;; *) most=450 ;; esac
  [ "$lines" -le $most ] || complain "$file has $lines lines; split it by idea"
done < <(git ls-files '*.cc' '*.h' 2>/dev/null | xargs -r wc -l | awk '$2 != "total"')
exit $bad
