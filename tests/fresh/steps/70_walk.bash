# Every command of the README and the lessons, typed in both languages without network (HEED_FRESH_MODELS: a folder of models
# as tests/fresh/walk.bash names them). The logs are there to be read: HEED_FRESH_KEEP=1 keeps them.
inside "$root" root /heed ./dev lessons >"$work/said"
if [ -n "${HEED_FRESH_MODELS:-}" ]; then
  mkdir -p "$root/models"
  for model in "$HEED_FRESH_MODELS"/{minilm,all-mpnet-base-v2,whisper-base,talk.flac,*.gguf}; do
    [ ! -e "$model" ] || cp -rL --reflink=auto "$model" "$root/models/"
  done
  chmod -R a+rX "$root/models"
fi
for language in en ko; do
  seconds_of inside --offline "$root" minsu /heed bash tests/fresh/walk.bash $language "/tmp/walk.$language.log" "$([ ! -d "$root/models" ] || echo /models)"
  cp "$root/tmp/walk.$language.log" "$work/"
  echo "note: $language took $seconds s"
done
