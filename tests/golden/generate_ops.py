"""Normalisations and recurrent cells with their gradients, and two small networks trained for ten steps."""

import torch
from torch import nn
from torch.nn import functional as F

from common import gradients, leaves, rounded, save, seed

STEPS = 10


def with_gradients(path, function, inputs, **metadata):
    inputs = leaves(inputs)
    output = function(**inputs)
    grad_output = rounded(*output.shape)
    save(path, {**inputs, "output": output, "grad_output": grad_output, **gradients(output, grad_output, inputs)},
         **metadata)


def norms():
    for name, shape in {"small": (2, 3, 12), "odd": (5, 37), "one": (4, 1)}.items():
        width = shape[-1]
        x = rounded(*shape, std=2, mean=3)
        weight, bias = rounded(width, std=0.2, mean=1), rounded(width, std=0.2)
        with_gradients(f"ops/layer_norm_{name}.safetensors",
                       lambda input, weight, bias: F.layer_norm(input, (width,), weight, bias, 1e-5),
                       {"input": x, "weight": weight, "bias": bias}, eps=1e-5)
        with_gradients(f"ops/rms_norm_{name}.safetensors",
                       lambda input, weight: F.rms_norm(input, (width,), weight, 1e-6),
                       {"input": x, "weight": weight}, eps=1e-6)


def cells():
    batch, width, hidden = 3, 5, 7
    shared = {"input": rounded(batch, width), "hidden": rounded(batch, hidden)}
    gru = {"weight_ih": rounded(3 * hidden, width, std=0.4), "weight_hh": rounded(3 * hidden, hidden, std=0.4),
           "bias_ih": rounded(3 * hidden, std=0.4), "bias_hh": rounded(3 * hidden, std=0.4)}
    with_gradients("ops/gru_cell.safetensors",
                   lambda input, hidden, **weights: torch.gru_cell(input, hidden, *weights.values()),
                   {**shared, **gru}, gates="r,z,n")
    lstm = {"weight_ih": rounded(4 * hidden, width, std=0.4), "weight_hh": rounded(4 * hidden, hidden, std=0.4),
            "bias_ih": rounded(4 * hidden, std=0.4), "bias_hh": rounded(4 * hidden, std=0.4)}
    with_gradients("ops/lstm_cell.safetensors",
                   lambda input, hidden, cell, **weights:
                   torch.cat(torch.lstm_cell(input, (hidden, cell), *weights.values())),
                   {**shared, "cell": rounded(batch, hidden), **lstm}, gates="i,f,g,o",
                   output="the new hidden state above the new cell state")


def train(path, model, optimizer, loss_of, inputs, targets, **metadata):
    """The same batch at every step; losses are those before each update."""
    initial = {f"initial.{name}": value.clone() for name, value in model.state_dict().items()}
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    final = {f"final.{name}": value for name, value in model.state_dict().items()}
    options = optimizer.defaults
    save(path, {"inputs": inputs, "targets": targets, "losses": torch.stack(losses), **initial, **final},
         optimizer=type(optimizer).__name__, lr=options["lr"], beta1=options["betas"][0], beta2=options["betas"][1],
         eps=options["eps"], weight_decay=options["weight_decay"], steps=STEPS, **metadata)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1, self.linear2, self.linear3 = nn.Linear(6, 16), nn.Linear(16, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.linear3(F.gelu(self.linear2(F.gelu(self.linear1(x)))))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.linear = nn.LSTM(5, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(self.lstm(x)[0])


def training():
    mlp = Mlp().double()
    train("ops/mlp_adamw.safetensors", mlp,
          torch.optim.AdamW(mlp.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
          F.mse_loss, rounded(9, 6), rounded(9, 3), activation="gelu-erf", loss="mean squared error")
    tagger = Tagger().double()
    train("ops/lstm_adam.safetensors", tagger,
          torch.optim.Adam(tagger.parameters(), lr=2e-2, betas=(0.9, 0.999), eps=1e-8),
          lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten()),
          rounded(3, 6, 5), torch.randint(0, 4, (3, 6)), loss="mean cross entropy", gates="i,f,g,o")


if __name__ == "__main__":
    seed(1)
    norms()
    cells()
    training()
