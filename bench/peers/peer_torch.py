"""PyTorch. Modes: installed (as pip gives it), tuned (a malloc that keeps its pages, by run.py's
environment, and the fused AdamW), compiled (tuned and torch.compile), fastpath
(nn.TransformerEncoder, which skips padding); bf16 and bf16-compiled (tuned, or compiled, with bf16:
training by torch.autocast, encoding with weights in bf16, attention on bf16 inputs)."""
import time
import torch
from protocol import sample, serve


def flat(tensor):
    return sample(tensor.detach().float().contiguous().view(-1))


class Limits:
    """sgemm with the library that PyTorch uses; the shape is heed's Limits."""

    def __init__(self, command):
        self.a, self.b = torch.zeros(1024, 768), torch.zeros(3072, 768)
        self.rate = 0.0

    def run(self):
        with torch.inference_mode():
            for _ in range(7):
                start = time.perf_counter()
                self.a @ self.b.T
                self.rate = max(self.rate, 2 * 1024 * 3072 * 768 / (time.perf_counter() - start))

    def values(self):
        return [self.rate]


class Attention:
    def __init__(self, command):
        from safetensors.torch import load_file
        tensors = load_file(command["inputs"])
        kind = torch.bfloat16 if command["mode"].startswith("bf16") else torch.float32
        self.q, self.k, self.v, self.dout = (tensors[name].to(kind) for name in ("q", "k", "v", "dout"))
        self.backward = command["backward"]
        self.results = []

    def run(self):
        attend = torch.nn.functional.scaled_dot_product_attention
        if not self.backward:
            with torch.no_grad():
                self.results = [attend(self.q, self.k, self.v, is_causal=True)]
            return
        leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
        out = attend(*leaves, is_causal=True)
        out.backward(self.dout)
        self.results = [out, *(leaf.grad for leaf in leaves)]

    def values(self):
        return [value for result in self.results for value in flat(result)]


def load(command):
    import transformers
    build = getattr(transformers, command["class"])
    kernel = "sdpa" if build._supports_sdpa else "eager"  # Longformer has its own
    model = build.from_pretrained(command["model"], attn_implementation=kernel, dtype=torch.float32)
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    return model


class Train:
    def __init__(self, command):
        from safetensors.torch import load_file
        self.model = load(command).train()
        self.inputs = load_file(command["inputs"])
        tuned = command["mode"] != "installed"
        options = {"fused": True} if tuned else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=command["lr"], weight_decay=0.01, **options)
        self.forward = torch.compile(self.model) if command["mode"].endswith("compiled") else self.model
        self.bf16 = command["mode"].startswith("bf16")
        self.losses = []

    def run(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.forward(**self.inputs).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss.item())

    def values(self):
        return self.losses


class FastPath(torch.nn.Module):
    """BERT's blocks as nn.TransformerEncoder, PyTorch's own inference path for them."""

    def __init__(self, bert):
        super().__init__()
        c = bert.config
        layer = torch.nn.TransformerEncoderLayer(c.hidden_size, c.num_attention_heads, c.intermediate_size, 0.0,
                                                 "gelu", c.layer_norm_eps, batch_first=True)
        self.embeddings = bert.embeddings
        self.encoder = torch.nn.TransformerEncoder(layer, c.num_hidden_layers, enable_nested_tensor=True)
        for ours, theirs in zip(self.encoder.layers, bert.encoder.layer):
            a = theirs.attention
            parts = (a.self.query, a.self.key, a.self.value)
            pairs = [(ours.self_attn.in_proj_weight, torch.cat([p.weight for p in parts])),
                     (ours.self_attn.in_proj_bias, torch.cat([p.bias for p in parts]))]
            for to, source in ((ours.self_attn.out_proj, a.output.dense), (ours.norm1, a.output.LayerNorm),
                               (ours.linear1, theirs.intermediate.dense), (ours.linear2, theirs.output.dense),
                               (ours.norm2, theirs.output.LayerNorm)):
                pairs += [(to.weight, source.weight), (to.bias, source.bias)]
            for to, source in pairs:
                to.data.copy_(source.data)

    def forward(self, input_ids, attention_mask):
        padding = None if attention_mask.all() else attention_mask == 0
        return self.encoder(self.embeddings(input_ids), src_key_padding_mask=padding)


class Encode:
    def __init__(self, command):
        from safetensors.torch import load_file
        self.inputs = load_file(command["inputs"])
        model = load(command).eval()
        if command["mode"].startswith("bf16"):
            model = model.to(torch.bfloat16)
        if command["mode"] == "fastpath":
            self.model = FastPath(model).eval()
        elif command["mode"].endswith("compiled"):
            self.model = torch.compile(model)
        else:
            self.model = model
        self.states = None

    def run(self):
        with torch.inference_mode():
            result = self.model(**self.inputs)
        self.states = result if isinstance(result, torch.Tensor) else result.last_hidden_state

    def values(self):
        mask = self.inputs["attention_mask"].bool()
        return flat(self.states[mask[:, :self.states.shape[1]]])


serve(lambda command: {"limits": Limits, "attention": Attention, "train": Train,
                       "encode": Encode}[command["kind"]](command))
