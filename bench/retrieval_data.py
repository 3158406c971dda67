"""Data for the recorded results on retrieval (docs/results.md): retrieval_data.py DATA OUT

DATA is the folder with wikitext2, shakespeare and multi30k. Writes into OUT:
- passages.jsonl: 20,000 passages; queries.jsonl: 1,000 sentences of WikiText-2, each taken out of the middle of
  the passage that is to be found by it (inverse cloze);
- fid_train.jsonl, fid_test.jsonl: synthetic questions with one passage that answers them and distractors about
  others; the names of the test set are answered from passages that training never saw.
"""

import json
import random
import re
import sys
from pathlib import Path

PASSAGES, QUERIES = 20_000, 1_000
FIRST = "Ada Ben Cleo Dan Eva Finn Gina Hugo Iris Jon Kira Leo Mina Noah Olga Paul Rosa Sam Tara Uma Vera Walt Yuna Zoe".split()
LAST = "Ash Bell Cole Dorn Egan Ford Gray Hale Ives Jung Kane Lund Moss Nash Ogden Pike Quinn Reed Sloan Todd".split()
CITIES = ("Oslo Rome Cairo Seoul Lima Paris Tokyo Delhi Bern Kyiv Busan Turin Lyon Porto Riga Quito Hanoi Perth Leeds Osaka "
          "Dakar Accra Milan Sofia Minsk Basel Ghent Malmo Split Izmir").split()
JOBS = "baker nurse pilot guard farmer singer tailor miner".split()


def sentences(text):
    return [part for part in re.split(r"(?<= [.!?]) (?=[A-Z\"])", text) if len(part.split()) >= 6]


def passages(data, random_):
    found, queries = [], []
    for name in ("wiki.valid.raw", "wiki.test.raw"):
        path = next(data.joinpath("wikitext2").glob(f"*{name.split('.')[1]}*"))
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip().startswith("="):
                continue
            parts = sentences(line.strip())
            for i in range(0, len(parts) - 2, 3):
                queries.append((len(found), parts[i + 1]))
                found.append(parts[i] + " " + parts[i + 2])
    for block in data.joinpath("shakespeare/input.txt").read_text(encoding="utf-8").split("\n\n"):
        speech = " ".join(block.split("\n")[1:]).strip()
        if len(speech.split()) >= 8:
            found.append(speech)
    captions = next(data.joinpath("multi30k").glob("train*.en")).read_text(encoding="utf-8").splitlines()
    random_.shuffle(captions)
    found += captions[:max(0, PASSAGES - len(found))]
    return found[:PASSAGES], random_.sample([query for query in queries if query[0] < PASSAGES], QUERIES)


def fid(random_, count, passages_each, people):
    for _ in range(count):
        group = random_.sample(people, passages_each)
        facts = [(name, random_.choice(CITIES), random_.choice(JOBS)) for name in group]
        which = random_.randrange(passages_each)
        name, city, job = facts[which]
        by_city = random_.random() < 0.5
        yield {"question": f"where does {name} live ?" if by_city else f"what does {name} do ?",
               "target": city if by_city else job,
               "ctxs": [{"title": who, "text": f"{who} lives in {where} and works as a {work} ."}
                        for who, where, work in facts]}


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    random_ = random.Random(7)
    found, queries = passages(data, random_)
    write(out / "passages.jsonl", ({"text": text} for text in found))
    write(out / "queries.jsonl", ({"query": text, "row": row + 1} for row, text in queries))
    people = [f"{first} {last}" for first in FIRST for last in LAST]
    random_.shuffle(people)
    held_out = len(people) // 5
    write(out / "fid_train.jsonl", fid(random_, 20_000, 5, people[held_out:]))
    write(out / "fid_test.jsonl", fid(random_, 500, 5, people[:held_out]))
    print(len(found), "passages,", len(queries), "queries")


if __name__ == "__main__":
    main()
