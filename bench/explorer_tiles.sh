#!/usr/bin/env bash
# bench/explorer_tiles.sh HEED: times of the explorer's tiles at 32,768 tokens, for each kind of attention (head_dim 64), on an idle machine.
# Models of two layers are trained for one step; their tables of positions are then repeated up to 32,768 rows.
set -euo pipefail
heed=$(realpath "$1") here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT; server=
for i in $(seq 200); do echo "the film was good $i"; done >"$work/text.txt"
for i in $(seq 60); do printf 'the film was good %d\tthe film %d\n' "$i" "$i"; done >"$work/pairs.tsv"
train() { "$heed" train --task "$2" --arch "$3" --tokenizer "$4" --data "$work/$5" --out "$work/r-$1" --layers 2 --heads 2 --width 128 --ff 256 --context 64 --batch 2 --steps 1 --quiet >"$work/log" 2>&1 && mv "$work/r-$1/model" "$work/$1" || { echo "$1: not trained:"; tail -1 "$work/log"; }; }
train llama lm llama char text.txt
train t5 translate t5 char pairs.tsv
train deberta mlm deberta-v2 wordpiece:120 text.txt
train mpnet mlm mpnet wordpiece:120 text.txt
train bert mlm bert wordpiece:120 text.txt
train longformer mlm longformer wordpiece:120 text.txt
train bigbird mlm big_bird wordpiece:120 text.txt
train performer lm heed-performer char text.txt
rm -rf "$work"/r-*
/usr/bin/python3 - "$work" <<'PY'
import json, pathlib, struct, sys
import numpy as np
for folder in pathlib.Path(sys.argv[1]).iterdir():
    if not (folder / "config.json").exists():
        continue
    config = json.loads((folder / "config.json").read_text())
    old = config.get("max_position_embeddings")
    config["max_position_embeddings"] = 32768 + 8
    (folder / "config.json").write_text(json.dumps(config))
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body, out, at = json.loads(data[8:8 + size]), data[8 + size:], b"", 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        piece = body[slice(*entry["data_offsets"])]
        if "position" in name and len(entry["shape"]) == 2 and entry["dtype"] == "F32" and "relative" not in name and entry["shape"][0] >= (old or 0):
            rows = np.frombuffer(piece, np.float32).reshape(entry["shape"])
            extra = entry["shape"][0] - old
            rows = np.resize(rows, (32768 + 8 + extra, rows.shape[1]))
            piece, entry["shape"] = rows.tobytes(), list(rows.shape)
        entry["data_offsets"] = [at, at + len(piece)]
        out, at = out + piece, at + len(piece)
    head = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + out)
PY
(cd "$work" && exec "$heed" explore $(for f in */; do [ -f "$f/config.json" ] && echo "${f%/}"; done) --port 0 --no-browser) 2>"$work/err" &
server=$!
for _ in $(seq 50); do url=$(sed -n 's/^listening on //p' "$work/err"); [ -n "$url" ] && break; sleep 0.2; done
[ -n "$url" ] || cat "$work/err"
node "$here/explorer_tiles.mjs" "$url"
