"""The tutorial's regressor as a whole process: [10 … 50] -> [12 … 52], d_model 16, 2 heads, 2+2 layers,
ff 32, Adam 1e-3, 500 epochs, MSE; weights from heed's folder: regressor_torch.py FOLDER MODE. With
"tuned": one thread and the fused Adam, which suit its size."""
import json, math, os, sys
import torch
from safetensors.torch import load_file

tuned = sys.argv[2] == "tuned"
if tuned:
    torch.set_num_threads(1)
WIDTH = 16
with open(os.path.join(sys.argv[1], "config.json")) as file:
    config = json.load(file)  # its means and scales: numbers go in and out about as large as 1


class Regressor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = torch.nn.Linear(1, WIDTH), torch.nn.Linear(1, WIDTH)
        self.transformer = torch.nn.Transformer(WIDTH, 2, 2, 2, 32, dropout=0.0, batch_first=True)
        self.out = torch.nn.Linear(WIDTH, 1)
        place = torch.arange(512.0)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        table = torch.zeros(512, WIDTH)
        table[:, 0::2], table[:, 1::2] = torch.sin(place), torch.cos(place)
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(5), persistent=False)

    def forward(self, x, y):
        x = (x - config["input_mean"]) / config["input_scale"]
        y = (y - config["output_mean"]) / config["output_scale"]
        x = self.source(x) * math.sqrt(WIDTH) + self.table[:x.shape[1]]
        y = self.target(y) * math.sqrt(WIDTH) + self.table[:y.shape[1]]
        return self.out(self.transformer(x, y, tgt_mask=self.mask)) * config["output_scale"] + config["output_mean"]


def joined(weights, place, kind):
    return torch.cat([weights[f"{place}.{part}_proj.{kind}"] for part in "qkv"])


def take(model, weights):
    """heed's names to nn.Transformer's."""
    state = {}
    for kind in ("weight", "bias"):
        state[f"source.{kind}"], state[f"target.{kind}"] = weights[f"encoder.input.{kind}"], weights[f"decoder.input.{kind}"]
        state[f"out.{kind}"] = weights[f"out.{kind}"]
        for side in ("encoder", "decoder"):
            state[f"transformer.{side}.norm.{kind}"] = weights[f"{side}.layer_norm.{kind}"]
            for layer in range(2):
                to, source = f"transformer.{side}.layers.{layer}", f"{side}.layers.{layer}"
                names = {"fc1": "linear1", "fc2": "linear2", "self_attn.out_proj": "self_attn.out_proj",
                         "self_attn_layer_norm": "norm1", "final_layer_norm": "norm2"}
                attentions = {"self_attn": "self_attn"}
                if side == "decoder":
                    names |= {"encoder_attn.out_proj": "multihead_attn.out_proj", "encoder_attn_layer_norm": "norm2",
                              "final_layer_norm": "norm3"}
                    attentions["encoder_attn"] = "multihead_attn"
                for ours, theirs in names.items():
                    state[f"{to}.{theirs}.{kind}"] = weights[f"{source}.{ours}.{kind}"]
                for ours, theirs in attentions.items():
                    state[f"{to}.{theirs}.in_proj_{kind}"] = joined(weights, f"{source}.{ours}", kind)
    model.load_state_dict(state, strict=True)


model = Regressor()
take(model, load_file(sys.argv[1] + "/model.safetensors"))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), **({"fused": True} if tuned else {}))
x = torch.tensor([[10.0], [20], [30], [40], [50]])[None]
target = x + 2
shifted = torch.cat([torch.zeros(1, 1, 1), target[:, :-1]], 1)
losses = []
for _ in range(500):
    loss = torch.nn.functional.mse_loss(model(x, shifted), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
print(f'{{"loss": {torch.stack(losses[:50]).mean().item()}}}')
