#!/usr/bin/env python3
"""Predicts data-parallel training with heed on N machines. docs/scaling.md explains and checks it.

  tools/scaling_model.py                       the tables of docs/scaling.md
  tools/scaling_model.py --check               measured points against the model
  tools/scaling_model.py --parameters 124e6 --tokens 524288 --gflops 60 --gbits 25
"""
import argparse
import math

BUCKET = 4 * 2**20  # bytes; kBucketFloats in src/train/data_parallel.cc
CHUNK = 64 * 2**10  # bytes to each rank at the least; kChunkFloats there
LOOK = 50e-6  # seconds between two looks of the background thread (kPoll in src/dist/mpi.cc)
MESSAGE = 5e-6  # seconds of the core for a message; an assumption, it matters above 100 machines only
EFFICIENCY = 0.94  # of a link, after Ethernet, IP and TCP headers
CPU_PER_BYTE = 1.05e-9  # seconds of the core for a byte sent: measured, what 10 Gbit/s took beyond the wire
BACKWARD = 2.0 / 3.0  # of a step's products
UPDATE = 2.8e-9  # seconds per parameter and thread: 28 bytes at 10 GB/s; an estimate

MODELS = {  # parameters that travel, products a token (6 x parameters that multiply), context
    "small GPT (6 x 384)": (10.8e6, 6 * 10.7e6 + 12 * 6 * 384 * 256, 256),
    "GPT-2 124M": (124e6, 6 * 124e6 + 12 * 12 * 768 * 1024, 1024),
    "GPT-2 medium 355M": (355e6, 6 * 355e6 + 12 * 24 * 1024 * 1024, 1024),
    "Llama 1.1B": (1.1e9, 6 * 1.03e9 + 12 * 22 * 2048 * 2048, 2048),
}


def step(parameters, flops_a_token, tokens, nodes, gflops, gbits, threads=1, shard=False):
    """Seconds of a step, and of what: compute, sum alone, sum exposed, update."""
    compute = flops_a_token * tokens / nodes / (gflops * 1e9)
    update = UPDATE * parameters / threads / (nodes if shard else 1)
    if nodes == 1:
        return {"step": compute + update, "compute": compute, "sum": 0.0, "exposed": 0.0, "update": update}
    size = 4 * parameters
    buckets = max(1, math.ceil(size / max(BUCKET, CHUNK * nodes)))
    sent = size * (nodes - 1) / nodes  # by each rank, in each of the two exchanges
    wire = gbits * 1e9 / 8 * EFFICIENCY
    one_way = sent / wire + buckets * ((nodes - 1) * MESSAGE + LOOK)
    # The exchange of the sums waits for nothing but them; with sharding it carries weights instead,
    # after the update, and hides behind nothing.
    hidden_part = one_way if shard else 2 * one_way
    stolen = CPU_PER_BYTE * 2 * sent / threads  # the core that copies does not multiply
    window = BACKWARD * compute * (1 - 1 / buckets)
    last = hidden_part / buckets  # the last bucket's sum begins when the pass is over
    exposed = max(last, hidden_part - window) + (one_way if shard else 0.0)
    total = compute + stolen + exposed + update
    return {"step": total, "compute": compute, "sum": 2 * one_way, "exposed": exposed, "update": update}


def row(name, tokens, nodes, gflops, gbits, threads):
    parameters, flops, _ = MODELS[name]
    return step(parameters, flops, tokens, nodes, gflops, gbits, threads)


def table(gflops, gbits, threads, counts):
    print(f"machines of {gflops:g} GFLOP/s, links of {gbits:g} Gbit/s; speed-up over one machine (share of linear)\n")
    print("| model | tokens per step | " + " | ".join(str(n) for n in counts) + " |")
    print("|---|---|" + "---|" * len(counts))
    for name, (parameters, flops, context) in MODELS.items():
        tokens = 1024 * context if parameters < 50e6 else 2097152  # at least one sequence per rank
        one = step(parameters, flops, tokens, 1, gflops, gbits, threads)["step"]
        cells = []
        for nodes in counts:
            if tokens // context < nodes:
                cells.append("– (less than one sequence per rank)")
                continue
            now = step(parameters, flops, tokens, nodes, gflops, gbits, threads)["step"]
            cells.append(f"{one / now:.1f}× ({100 * one / now / nodes:.0f} %)")
        print(f"| {name} | {tokens:,} | " + " | ".join(cells) + " |")
    print()


# What, GFLOP/s of a rank (so that two ranks over shared memory take the 1.740 s they took), Gbit/s,
# median seconds per step; all measured in one quiet run, see docs/scaling.md.
MEASURED = [("10 Gbit/s", 85.4, 10, 1.845), ("1 Gbit/s", 85.4, 1, 1.917)]


def check():
    parameters, flops, _ = MODELS["small GPT (6 x 384)"]
    print("| link | measured s per step | model | error |")
    print("|---|---|---|---|")
    for what, gflops, gbits, seconds in MEASURED:
        model = step(parameters, flops, 4096, 2, gflops, gbits)["step"]
        print(f"| {what} | {seconds:.3f} | {model:.3f} | {100 * (model / seconds - 1):+.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--parameters", type=float)
    parser.add_argument("--tokens", type=float, default=524288, help="of a step, over all ranks")
    parser.add_argument("--gflops", type=float, default=100, help="that a rank reaches in training")
    parser.add_argument("--gbits", type=float, default=10, help="of the slowest link")
    parser.add_argument("--threads", type=int, default=2, help="of a rank")
    parser.add_argument("--shard", action="store_true", help="with --shard-optimizer")
    options = parser.parse_args()
    counts = [8, 32, 128, 512, 1024]
    if options.check:
        check()
    elif options.parameters:
        for nodes in [1, 2, *counts]:
            found = step(options.parameters, 6 * options.parameters, options.tokens, nodes, options.gflops,
                         options.gbits, options.threads, options.shard)
            print(f"{nodes:5d} machines: {found['step']:9.3f} s per step, of which compute {found['compute']:.3f}, "
                  f"sums alone {found['sum']:.3f}, waited for {found['exposed']:.3f}, update {found['update']:.3f}; "
                  f"{options.tokens / found['step']:,.0f} tokens/s")
    else:
        table(options.gflops, options.gbits, options.threads, counts)


if __name__ == "__main__":
    main()
