# python_with MODULES: prints the first of HEED_PYTHON and python3 that can import them; fails where neither can.
python_with() {
  local candidate
  for candidate in "${HEED_PYTHON:-}" python3; do
    if [ -n "$candidate" ] && "$candidate" -c "import $1" 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}
