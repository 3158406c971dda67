# Every command of the README and the lessons, typed in both languages without network (HEED_FRESH_MODELS: a folder with minilm/
# and a *.gguf). The logs are there to be read: HEED_FRESH_KEEP=1 keeps them.
inside "$root" root /heed ./dev lessons >"$work/said"
if [ -n "${HEED_FRESH_MODELS:-}" ]; then
  mkdir -p "$root/models"
  cp -rL "$HEED_FRESH_MODELS"/minilm "$root/models/"
  cp -L "$(find -L "$HEED_FRESH_MODELS" -maxdepth 1 -name '*.gguf' | sort | head -1)" "$root/models/"
fi
for language in en ko; do
  seconds_of inside --offline "$root" minsu /heed bash tests/fresh/walk.bash $language "/tmp/walk.$language.log" "$([ ! -d "$root/models" ] || echo /models)"
  cp "$root/tmp/walk.$language.log" "$work/"
  echo "note: $language took $seconds s"
done
