#!/usr/bin/env python3
"""The loss curve that PyTorch draws for a run of `heed train --task lm --tokenizer char` without dropout:
curve.py RUN START TEXT [STEPS]. RUN is the run's folder, START a model folder with the weights that it began
with (the same command with --steps 1 --lr 0), TEXT its data. Batches are drawn here by the rules of
src/data, the model and AdamW are Hugging Face's and PyTorch's; prints both losses of every tenth step and
the largest difference, and exits with 1 where that is beyond 1e-2."""
import json, math, os, sys, tomllib

import torch
import transformers

MASK32, MASK64 = 2**32 - 1, 2**64 - 1
EPOCH_STREAM, PHASE_STREAM = 1 << 62, 3 << 62
BETAS, EPS, FLOOR, MOST = (0.9, 0.98), 1e-8, 0.1, 1e-2


def philox(seed, stream, position):
    c = [position & MASK32, position >> 32, stream & MASK32, stream >> 32]
    k = [seed & MASK32, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & MASK32, p0 >> 32 ^ c[3] ^ k[1], p0 & MASK32]
        k = [k[0] + 0x9E3779B9 & MASK32, k[1] + 0xBB67AE85 & MASK32]
    return c


def below(bound, seed, stream):
    """The first number of a stream, uniform in [0, bound)."""
    words = [word for position in range(4) for word in philox(seed, stream, position)]
    limit = MASK64 - MASK64 % bound
    return next(v for v in (words[i] << 32 | words[i + 1] for i in range(0, 16, 2)) if v < limit) % bound


def permuted(index, count, seed, stream):
    half = ((count - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for round in range(4):
            words = philox(seed, stream, round << 48 | right)
            left, right = right, left ^ (words[0] << 32 | words[1]) & mask
        index = left << half | right
        if index < count:
            return index


class Batches:
    def __init__(self, tokens, context, batch, seed):
        self.tokens, self.context, self.batch, self.seed = tokens, context, batch, seed
        self.blocks = (len(tokens) - context) // (context - 1)  # one less than fit: epochs begin at other places
        self.steps = self.blocks // batch

    def __getitem__(self, step):
        epoch, first = step // self.steps, step % self.steps * self.batch
        phase = below(self.context - 1, self.seed, PHASE_STREAM | epoch)
        rows = [permuted(first + row, self.blocks, self.seed, EPOCH_STREAM | epoch) for row in range(self.batch)]
        starts = [phase + row * (self.context - 1) for row in rows]
        return torch.stack([self.tokens[start:start + self.context] for start in starts])


def learning_rate(step, options):
    """Of update `step`, counted from 1."""
    warmup, total = min(options["warmup"], options["steps"] // 2), options["steps"]
    if step <= warmup:
        return options["lr"] * step / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return options["lr"] * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * progress)))


def main():
    run, start, text = sys.argv[1:4]
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    options = tomllib.load(open(os.path.join(run, "config.toml"), "rb"))
    if options["dropout"] != 0 or options["schedule"] != "cosine" or options["precision"] != "f32":
        sys.exit("curve: only runs without dropout, with the cosine schedule and in f32 can be compared")
    ours = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
    ours = {line["step"]: line["loss"] for line in ours if "val_loss" not in line}
    vocabulary = json.load(open(os.path.join(start, "tokenizer.json")))["model"]["vocab"]
    tokens = torch.tensor([vocabulary[c] for c in open(text, encoding="utf-8").read()])
    train = tokens[:len(tokens) - math.floor(len(tokens) * options["validation_share"] + 0.5)]
    batches = Batches(train, options["context"], options["batch"], options["seed"])
    model = transformers.AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32).train()
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": options["weight_decay"]},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=BETAS, eps=EPS, fused=True)
    worst = 0.0
    print(f"step  heed      PyTorch {torch.__version__}", flush=True)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        batch = batches[step - 1]
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options["clip"])
        optimizer.step()
        apart = abs(loss.item() - ours[step])
        worst = max(worst, apart)
        if step % 10 == 0 or step == 1:
            print(f"{step:4}  {ours[step]:.6f}  {loss.item():.6f}  {apart:.1e}", flush=True)
    print(f"largest difference of {steps} steps: {worst:.2e}")
    sys.exit(worst > MOST)


main()
