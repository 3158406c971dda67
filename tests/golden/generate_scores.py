"""BLEU and chrF by sacreBLEU: tests/golden/scores/scores.json.

The sentences are our own. For Multi30k only the figures are kept: the test reads the files where
they are and damages the references in the same way.
"""
import json
import os
import pathlib
import sys

import sacrebleu

HERE = pathlib.Path(__file__).parent
MULTI30K = pathlib.Path(os.environ["HEED_SHARED"]) / "multi30k"

CASES = {
    "plain": (["The cat sat on the mat.", "There is no spoon in the drawer, is there?"],
              ["The cat sat on a mat.", "There is no fork in the drawer, is there?"]),
    "punctuation": (["It costs 3,000.50 dollars (about 5-10 %).", 'He said: "well, 1.5 is not 1,5".',
                     "a/b {c} [d] `e` x@y.com 10-year-old <skipped> &quot;q&quot; &amp;lt; -- ... ,,"],
                    ["It cost 3,000.50 dollars (about 5-12 %).", 'She said: "well, 1.5 is 1,5".',
                     "a/b (c) [d] 'e' x@z.com 10-year-old &quot;q&quot; &lt; - ... ,"]),
    "korean": (["고양이가 매트 위에 앉았다.", "오늘 날씨는 12.5도이고, 맑다!"],
               ["고양이가 매트 위에 앉아 있다.", "오늘은 날씨가 12.5도로, 맑다!"]),
    "spaces": (["  two\u00a0words \t here\u3000now  ", "x"], ["two words here now", "x y z"]),
    "smoothed": (["the the the quick fox", "a b"], ["a quick brown fox jumps", "b a"]),
    "nothing": (["abc def"], ["ghi jkl mno"]),
    "empty": (["", "some words are here now"], ["a reference of words", "some words are here then"]),
    "short": (["a", "b"], ["a", "c"]),
    "exact": (["exactly the same words , all of them .", "and here too , more of them ."],
              ["exactly the same words , all of them .", "and here too , more of them ."]),
}


def damaged(line, index):
    words = line.split(" ")
    if len(words) > 3:
        del words[index % len(words)]
        if index % 2:
            words[0], words[1] = words[1], words[0]
        if index % 5 == 0:
            words.append("und")
    return " ".join(words)


def scores(hyps, refs):
    bleu = sacrebleu.corpus_bleu(hyps, [refs])
    return {"bleu": bleu.score, "precisions": bleu.precisions, "brevity": bleu.bp,
            "chrf": sacrebleu.corpus_chrf(hyps, [refs]).score}


def main():
    out = {"sacrebleu": sacrebleu.__version__, "cases": []}
    for name, (hyps, refs) in CASES.items():
        out["cases"].append({"name": name, "results": hyps, "references": refs, **scores(hyps, refs)})
    for side in ("de", "en"):
        lines = (MULTI30K / f"test_2016_flickr.{side}").read_text().split("\n")[:1000]
        out[side] = scores([damaged(line, i) for i, line in enumerate(lines)], lines)
    (HERE / "scores").mkdir(exist_ok=True)
    (HERE / "scores" / "scores.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
