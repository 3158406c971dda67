"""Recall of the three ways to search: retrieval_recall.py HEED INDEX QUERIES.jsonl

Every query's own passage is row `row` of the indexed file (bench/retrieval_data.py). One `heed search` per mode reads
all queries; prints recall@10, recall@1 and nDCG@10.
"""

import json
import math
import subprocess
import sys


def main():
    heed, index, queries = sys.argv[1:4]
    rows = [json.loads(line) for line in open(queries, encoding="utf-8")]
    lines = "".join(row["query"].replace("\n", " ") + "\n" for row in rows)
    for mode in ("dense", "lexical", "hybrid"):
        done = subprocess.run([heed, "search", index, "--mode", mode, "--top-k", "10", "--json", "--quiet"], input=lines,
                              check=True, capture_output=True, text=True)
        answers = [json.loads(line)["results"] for line in done.stdout.splitlines()]
        assert len(answers) == len(rows), (len(answers), len(rows))
        ranks = []
        for row, results in zip(rows, answers):
            found = [result["rank"] for result in results if result["location"] == f"row {row['row']}"]
            ranks.append(min(found, default=0))
        first = sum(rank == 1 for rank in ranks) / len(ranks)
        gain = sum(1 / math.log2(1 + rank) for rank in ranks if rank) / len(ranks)
        print(f"{mode:8} recall@10 {sum(rank > 0 for rank in ranks) / len(ranks):.3f}  recall@1 {first:.3f}  "
              f"nDCG@10 {gain:.3f}")


if __name__ == "__main__":
    main()
