#!/usr/bin/env bash
# readers.sh HEED SOURCE: `heed search --rerank` orders by the cross-encoder's own logits, with one logit and with several, and
# `heed ask --reader rag` answers from an index with a RAG's two encoders and two tokenizers. The models are golden ones.
set -eu
heed=$1 source=$2
command -v python3 >/dev/null || { echo "no Python to compute what is expected with"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# Golden models have no tokenizer: words w5 … w36 are tokens 5 … 36 of all of them.
models=$source/tests/golden
cp -r "$models/models/bert_base" "$models/models/bert_classify" "$models/models/xlm_roberta_rank" "$models/retrieval/dpr_question" "$work"
cp -r "$models/retrieval/rag_token_bart" "$work/rag"
python3 - "$work" <<'PYTHON'
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
roberta = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
words = [f"w{i}" for i in range(5, 37)]

def tokenizer(folder, special, begin, end, between):
    vocabulary = {word: i for i, word in enumerate(special + words)}
    token = lambda name, kind: {"SpecialToken": {"id": name, "type_id": kind}}
    text = lambda which, kind: {"Sequence": {"id": which, "type_id": kind}}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
        "added_tokens": [{"id": i, "content": word, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
                         for i, word in enumerate(special)],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token(begin, 0), text("A", 0), token(end, 0)],
            "pair": [token(begin, 0), text("A", 0)] + [token(end, 0)] * between + [text("B", int(between == 1)), token(end, int(between == 1))],
            "special_tokens": {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in (begin, end)}},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": special[1 if special is bert else 3]}}))

for name in ("bert_base", "bert_classify", "dpr_question", "rag/question_encoder_tokenizer"):
    tokenizer(work / name, bert, "[CLS]", "[SEP]", 1)
for name in ("xlm_roberta_rank", "rag/generator_tokenizer"):
    tokenizer(work / name, roberta, "<s>", "</s>", 2)
passages = ["w5 w6 w7", "w9 w8", "w30 w31 w32", "w12 w7 w9", "w20", "w7 w7 w7"]
(work / "docs.jsonl").write_text("".join(json.dumps({"text": p}) + "\n" for p in passages))
PYTHON

cat >"$work/expected.py" <<'PYTHON'
# expected.py MODEL HEED RESULTS: the scores that `heed search --rerank MODEL` printed, against the logits of its pairs.
import json, pathlib, struct, subprocess, sys
model, heed, results = pathlib.Path(sys.argv[1]), sys.argv[2], json.load(open(sys.argv[3]))["results"]
one = model.name == "xlm_roberta_rank"
number = lambda text: [int(word[1:]) for word in text.split()]
query = number("w7 w9")

def score(passage):
    if one:
        ids, kinds = [0, *query, 2, 2, *passage, 2], None
    else:
        ids = [2, *query, 3, *passage, 3]
        kinds = [0] * (len(query) + 2) + [1] * (len(passage) + 1)
    tensors, data = {}, b""
    for name, values in (("input_ids", ids), ("token_type_ids", kinds)):
        if values:
            raw = struct.pack(f"<{len(values)}q", *values)
            tensors[name] = {"dtype": "I64", "shape": [1, len(values)], "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    header = json.dumps(tensors).encode()
    folder = model.parent
    (folder / "in.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)
    subprocess.run([heed, "forward", model, "--input", folder / "in.safetensors", "--output", folder / "out.safetensors", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    blob = (folder / "out.safetensors").read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    entry = json.loads(blob[8 : 8 + size])["logits"]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    logits = struct.unpack(f"<{(end - begin) // 4}f", blob[begin:end])
    return logits[0] if one else logits[-1] - logits[0]

assert len(results) == 6, results
scores = [r["score"] for r in results]
assert scores == sorted(scores, reverse=True), scores
for r in results:
    expected = score(number(r["text"]))
    assert abs(r["score"] - expected) <= 1e-5, (r["text"], r["score"], expected)
assert len({round(s, 6) for s in scores}) > 1, "the cross-encoder tells nothing apart"
print([r["text"] for r in results])
PYTHON

"$heed" index "$work/docs.jsonl" --model "$work/bert_base" --out "$work/x.heed-index" --quiet
"$heed" search "$work/x.heed-index" "w7 w9" --mode dense --json >"$work/plain.json"
for model in bert_classify xlm_roberta_rank; do
  "$heed" search "$work/x.heed-index" "w7 w9" --mode dense --rerank "$work/$model" --json >"$work/$model.json"
  python3 "$work/expected.py" "$work/$model" "$heed" "$work/$model.json" || fail "--rerank $model"
done
order() { grep -o '"chunk":[0-9]*' "$1" | tr '\n' ' '; }
[ "$(order "$work/plain.json")" != "$(order "$work/bert_classify.json")" ] || fail "the cross-encoder changed no place, so the test shows nothing"
"$heed" search "$work/x.heed-index" "w7 w9" --rerank "$work/bert_classify" -k 2 --candidates 6 >"$work/out"
grep -cE '^ *[12]\. -?[0-9]' "$work/out" | grep -qx 2 || fail "-k 2 with --rerank: $(cat "$work/out")"
code=0
"$heed" search "$work/x.heed-index" "w7 w9" --rerank "$work/bert_base" >/dev/null 2>"$work/err" || code=$?
[ "$code" = 2 ] && grep -q "needs a sequence classifier" "$work/err" || fail "--rerank with an encoder that has no classifier: exit $code, $(cat "$work/err")"

"$heed" index "$work/docs.jsonl" --model "$work/dpr_question" --out "$work/dpr.heed-index" --quiet
ask() { "$heed" ask "$work/dpr.heed-index" "w7 w9" --model "$work/rag" --reader rag -k 3 --max-tokens 6 --show-attention "$@"; }
ask --json >"$work/answer.json"
ask --json >"$work/again.json"
cmp -s "$work/answer.json" "$work/again.json" || fail "a RAG's answer differs from run to run"
python3 - "$work/answer.json" <<'PYTHON' || fail "ask --reader rag: $(cat "$work/answer.json")"
import json, sys
answer = json.load(open(sys.argv[1]))
sources = answer["sources"]
assert len(sources) == 3, sources
assert abs(sum(s["attention"] for s in sources) + answer.get("other_attention", 0) - 1) < 1e-6, sources
scores = [s["score"] for s in sources]
assert scores == sorted(scores, reverse=True), scores
PYTHON
ask >"$work/out" || fail "ask --reader rag"
grep -q "docs.jsonl" "$work/out" || fail "a RAG's answer without its sources: $(cat "$work/out")"
rm -r "$work/rag/generator_tokenizer"
code=0
ask >/dev/null 2>"$work/err" || code=$?
[ "$code" != 0 ] && grep -q "generator_tokenizer" "$work/err" || fail "a RAG without a tokenizer: exit $code, $(cat "$work/err")"
