#!/usr/bin/env bash
# The page's own tests: types, catalogues, formulas, exports, and that the committed file is what its
# sources give. Skipped where Node.js 18 or npm's registry is not there.
set -euo pipefail
source "$(dirname "$0")/npm.bash"
npm run --silent check
npm run --silent test
