#!/usr/bin/env python3
"""Figures of the Python package: calls and a training loop against C++ and PyTorch, in one run.

    figures.py BUILD [--torch] [--load FOLDER]

BUILD has include/heed beside it and lib/libheed.so. Every kind of step is measured in turn, step for
step, and by its median, so that a machine that slows down slows all of them.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import heed
from heed import nn, optim
from heed.nn import functional as F

SOURCE = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, WIDTH, LENGTH, BATCH = 96, 128, 128, 16


def compile_loops(build: pathlib.Path) -> str:
    program = tempfile.mktemp(prefix="heed-loops-")
    subprocess.run(["g++", "-std=c++20", "-O2", "-I", SOURCE / "include", SOURCE / "bench/python/loops.cc", "-o", program,
                    f"-L{build}/lib", "-lheed", f"-Wl,-rpath,{build.resolve()}/lib"], check=True)
    return program


def call_time(fn, calls=20000):
    best = 1e9
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(calls):
            fn()
        best = min(best, (time.perf_counter() - start) / calls)
    return 1e9 * best


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([nn.TransformerBlock(WIDTH, 4, causal=True) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(heed.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def ours(dtype=None):
    heed.manual_seed(1)
    model = Gpt()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids):
        if dtype is not None:
            with heed.autocast(dtype):
                return inner(ids)
        return inner(ids)

    def inner(ids):
        loss = F.cross_entropy(model(ids).view(-1, VOCABULARY), ids.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    ids = [heed.tensor([[(i * 7 + s + r * LENGTH * 7) % VOCABULARY for i in range(LENGTH)] for r in range(BATCH)]) for s in range(4)]
    return lambda s: step(ids[s % 4])


def theirs(compiled, dtype=None):
    import torch
    from torch.nn import functional as TF

    torch.manual_seed(1)
    torch.set_num_threads(heed.get_num_threads())

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv, self.proj = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            q, k, v = (t.view(BATCH, LENGTH, 4, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
            y = TF.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
            x = x + self.proj(y)
            return x + self.down(TF.gelu(self.up(self.norm2(x))))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
            self.blocks = torch.nn.ModuleList([Block() for _ in range(4)])
            self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(torch.arange(LENGTH))
            for block in self.blocks:
                x = block(x)
            return TF.cross_entropy(self.head(self.norm(x)).view(-1, VOCABULARY), ids.view(-1))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    run = torch.compile(model) if compiled else model

    def step(ids):
        if dtype:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = run(ids)
        else:
            loss = run(ids)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    ids = [torch.tensor([[(i * 7 + s + r * LENGTH * 7) % VOCABULARY for i in range(LENGTH)] for r in range(BATCH)]) for s in range(4)]
    return lambda s: step(ids[s % 4])


def in_cpp(program):
    """The C++ loop, in a process that does a step when it is told to."""
    process = subprocess.Popen([program, "steps"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(_):
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--load")
    arguments = parser.parse_args()
    report = {}

    program = compile_loops(arguments.build)
    a, b, m = heed.randn(4), heed.randn(4), heed.randn(4, 4)
    empty = call_time(a.numel)  # nanobind's own cost of a call
    python = {"add": call_time(lambda: a + b), "mul_scalar": call_time(lambda: a * 2.0), "exp": call_time(a.exp),
              "matmul": call_time(lambda: m @ m), "reshape": call_time(lambda: m.view(16))}
    loop = call_time(lambda: None)  # of the lambda
    cpp = json.loads(subprocess.run([program, "20000"], check=True, capture_output=True, text=True).stdout)
    report["calls_ns"] = {name: {"python": round(python[name]), "cpp": round(cpp[name]), "over": round(python[name] - cpp[name])} for name in python}
    report["empty_call_ns"] = round(empty)
    report["lambda_ns"] = round(loop)

    loops = {"heed": ours()}
    if arguments.bf16:
        loops["heed bf16"] = ours(heed.bfloat16)
    if arguments.torch:
        loops["torch"], loops["torch compiled"] = theirs(False), theirs(True)
        if arguments.bf16:
            loops["torch bf16"], loops["torch compiled bf16"] = theirs(False, True), theirs(True, True)
    loops["cpp"] = in_cpp(program)
    times = {name: [] for name in loops}
    for name, step in loops.items():
        for warm in range(3):
            step(warm)
    for i in range(arguments.steps):
        for name, step in loops.items():
            start = time.perf_counter()
            done = step(i)
            times[name].append(done if name == "cpp" else time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in times.items()}
    report["step_ms"] = {name: round(1000 * each, 2) for name, each in medians.items()}
    report["cpp / heed"] = round(medians["cpp"] / medians["heed"], 3)
    for name in medians:
        if name.startswith("torch"):
            mine = "heed bf16" if name.endswith("bf16") else "heed"
            report[f"{name} / {mine}"] = round(medians[name] / medians[mine], 2)
    if arguments.load:
        loads = []
        for _ in range(5):
            start = time.perf_counter()
            heed.load(arguments.load)
            loads.append(time.perf_counter() - start)
        report["load_ms"] = [round(1000 * each, 1) for each in loads]
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
