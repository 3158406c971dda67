#!/usr/bin/env python3
"""What stack protector, checked library calls and control-flow protection cost.

    bench/hardening_cost.py PLAIN HARDENED [--shared ../shared/data] [--rounds 15] [--json]

PLAIN and HARDENED are two builds of one commit, without and with -DHEED_HARDENED=ON. Runs commands that
differ in what they spend their time on, the two programs in turn, A B B A, and prints the medians of processor
time (user and system) and of elapsed time and the ratio HARDENED / PLAIN of each. Needs the machine alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def works(shared, folder):
    """Name -> arguments of heed and the file on its standard input."""
    text = shared / "shakespeare/input.txt"
    lines = folder / "lines.txt"
    lines.write_text("\n".join(line for line in text.read_text().splitlines() if line)[:120_000] + "\n")
    train = ["train", "--task", "lm", "--data", str(text), "--tokenizer", "char", "--layers", "4", "--heads", "4",
             "--width", "192", "--context", "128", "--batch", "8", "--steps", "40", "--quiet", "--threads", "2"]
    return {
        "train a small GPT": ([*train, "--out", "{new}"], None),
        "encode lines (MiniLM)": (["embed", str(shared / "minilm"), "--quiet"], lines),
        "generate 256 tokens (stories260K)": (
            ["generate", str(shared / "stories260k/stories260K.bin"), "--tokenizer", str(shared / "stories260k/tok512.bin"),
             "--prompt", "Once upon a time", "--max-tokens", "256", "--temperature", "0", "--ignore-eos", "--n", "4"], None),
        "tokenize a text (WordPiece)": (["tokenize", str(shared / "minilm/tokenizer.json")], text),
        "start (heed --version)": (["--version"], None),
    }


def run(program, arguments, given, folder):
    out = folder / f"out-{time.monotonic_ns()}"
    words = [word.replace("{new}", str(out)) for word in arguments]
    before, start = os.times(), time.perf_counter()
    with open(given or os.devnull, "rb") as source:
        done = subprocess.run([program, *words], stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    elapsed, after = time.perf_counter() - start, os.times()
    if done.returncode:
        sys.exit(f"{program} {' '.join(words)}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    subprocess.run(["rm", "-rf", str(out)], check=True)
    return after.children_user + after.children_system - before.children_user - before.children_system, elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plain")
    parser.add_argument("hardened")
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    programs = [str(pathlib.Path(path).resolve()) for path in (options.plain, options.hardened)]
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for work, (arguments, given) in works(options.shared.resolve(), folder).items():
            taken = ([], [])
            for turn in range(-1, options.rounds):  # the first round warms up
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    measured = run(programs[which], arguments, given, folder)
                    if turn >= 0:
                        taken[which].append(measured)
            cpu, elapsed = ([statistics.median(each[of] for each in side) for side in taken] for of in (0, 1))
            results[work] = {"processor_seconds": cpu, "elapsed_seconds": elapsed,
                             "processor_ratio": cpu[1] / cpu[0], "elapsed_ratio": elapsed[1] / elapsed[0]}
            if not options.json:
                print(f"{work:38} processor {cpu[0]:.3f} and {cpu[1]:.3f} s, {cpu[1] / cpu[0]:.4f}; "
                      f"elapsed {elapsed[0]:.3f} and {elapsed[1]:.3f} s, {elapsed[1] / elapsed[0]:.4f}", flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
