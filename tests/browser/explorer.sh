#!/usr/bin/env bash
# What a person does on the page, in Debian's browsers. Skipped without Node.js 20, npm's registry or
# a browser. HEED_EXPLORER_URL names a running server; otherwise web/mock answers. HEED_EXPLORER_BROWSER
# names one of chromium and firefox; `./dev web` runs both.
set -euo pipefail
source "$(dirname "$0")/npm.bash"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || { echo "the browser tests need Node.js 20"; exit 77; }
[ -x /usr/bin/chromium ] || [ -x /usr/bin/firefox-esr ] || { echo "no browser: apt-get install chromium firefox-esr"; exit 77; }
node ../tests/browser/run.mjs ${HEED_EXPLORER_URL:+--url "$HEED_EXPLORER_URL"} ${HEED_EXPLORER_BROWSER:+--browser "$HEED_EXPLORER_BROWSER"} ${HEED_EXPLORER_FILTER:+--filter "$HEED_EXPLORER_FILTER"}
