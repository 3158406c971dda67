# Sourced: goes to web/ and installs what its lock file names, once for each version of the file. Not
# by `npm ci`: it wants every platform's optional packages, and mirrors lack those of other platforms.
cd "$(dirname "${BASH_SOURCE[0]}")/../../web"
command -v node >/dev/null && command -v npm >/dev/null || { echo "no Node.js: apt-get install nodejs npm"; exit 77; }
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 18 ] || { echo "Node.js 18 or newer is needed"; exit 77; }
(
  flock 9
  if ! cmp -s package-lock.json node_modules/.installed-lock; then
    npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null 2>node_modules.log || { tail -3 node_modules.log; rm -f node_modules.log; exit 77; }
    rm -f node_modules.log
    cp package-lock.json node_modules/.installed-lock
  fi
) 9>/tmp/heed-npm.lock || exit 77
