"""heed's own encoders in plain PyTorch: `heed-encoder`, `heed-sentiment` and `heed-performer`."""

import math

import torch
from torch import nn


def favor(q, k, v, projection, causal, real):
    """FAVOR+ (Choromanski et al. 2021), row by row. q, k, v [B, H, T, D]; real [B, T]."""
    def exponents(x):
        scaled = x * x.shape[-1] ** -0.25
        return scaled @ projection.T - (scaled ** 2).sum(-1, keepdim=True) / 2

    queries = exponents(q)
    queries = (queries - queries.amax(-1, keepdim=True)).exp() + 1e-4
    keys, rows = exponents(k), []
    for i in range(q.shape[2]):
        seen = real[:, None, :].expand(keys.shape[:3]).clone()
        if causal:
            seen[..., i + 1:] = False
        top = keys.masked_fill(~seen[..., None], -1e30).amax((-1, -2), keepdim=True)
        if not causal or seen.any():
            features = ((keys - top).exp() + 1e-4) * seen[..., None]
            weights = (features * queries[:, :, i:i + 1]).sum(-1)
            rows.append((weights[..., None] * v).sum(2) / weights.sum(-1, keepdim=True))
    return torch.stack(rows, 2)


class Attention(nn.Module):
    def __init__(self, config, head):
        super().__init__()
        width, self.heads, self.causal = config["d_model"], config["encoder_attention_heads"], head == "lm"
        bias = config.get("attention_bias", True)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(width, width, bias=bias))
        features = config.get("num_random_features")
        if features:
            self.register_buffer("projection", torch.randn(features, width // self.heads))

    def forward(self, x, real):
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for layer in (self.q_proj, self.k_proj, self.v_proj))
        if hasattr(self, "projection"):
            mixed, weights = favor(q, k, v, self.projection, self.causal, real), None
        else:
            length = x.shape[1]
            seen = real[:, None, None, :].expand(len(x), 1, length, length)
            seen = seen & torch.ones(length, length, dtype=torch.bool).tril() if self.causal else seen
            weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -torch.inf).softmax(-1)
            mixed = weights @ v
        return self.out_proj(mixed.transpose(1, 2).flatten(2)), weights


class Layer(nn.Module):
    def __init__(self, config, head):
        super().__init__()
        width, inner = config["d_model"], config["encoder_ffn_dim"]
        self.pre_norm = config.get("pre_norm", False)
        self.self_attn, self.self_attn_layer_norm = Attention(config, head), nn.LayerNorm(width)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)

    def forward(self, x, real):
        mixed, weights = self.self_attn(self.self_attn_layer_norm(x) if self.pre_norm else x, real)
        x = x + mixed if self.pre_norm else self.self_attn_layer_norm(x + mixed)
        read = self.final_layer_norm(x) if self.pre_norm else x
        read = x + self.fc2(self.fc1(read).relu())
        return (read if self.pre_norm else self.final_layer_norm(read)), weights


class Encoder(nn.Module):
    """`head`: none, mlm, lm or classify."""

    def __init__(self, config):
        super().__init__()
        self.config, self.head = config, config.get("head", "classify")
        width = config["d_model"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.embed_positions = nn.Embedding(config["max_position_embeddings"], width)
        self.layers = nn.ModuleList(Layer(config, self.head) for _ in range(config["encoder_layers"]))
        if config.get("final_norm"):
            self.layer_norm = nn.LayerNorm(width)
        if self.head in ("mlm", "lm"):
            self.lm_head = nn.Linear(width, config["vocab_size"])
            if config.get("tie_word_embeddings", True):
                self.lm_head.weight = self.embed_tokens.weight
        elif self.head == "classify":
            inner, labels = config.get("classifier_hidden_size", 0), config["num_labels"]
            self.classifier = (nn.ModuleDict({"dense": nn.Linear(width, inner), "out_proj": nn.Linear(inner, labels)})
                               if inner else nn.Linear(width, labels))

    def forward(self, input_ids, attention_mask, labels=None):
        real, outputs = attention_mask.bool(), {}
        x = self.embed_tokens(input_ids) + self.embed_positions.weight[:input_ids.shape[1]]
        states = [x]
        for number, layer in enumerate(self.layers):
            x, weights = layer(x, real)
            states.append(x)
            if weights is not None:
                outputs[f"attentions.{number}"] = weights
        if hasattr(self, "layer_norm"):
            x = states[-1] = self.layer_norm(x)
        outputs |= {f"hidden_states.{number}": state for number, state in enumerate(states)}
        if self.head == "none":
            return {**outputs, "last_hidden_state": x}
        if self.head == "classify":
            pooled = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
            logits = (self.classifier["out_proj"](self.classifier["dense"](pooled).relu())
                      if isinstance(self.classifier, nn.ModuleDict) else self.classifier(pooled))
            targets, scores = labels, logits
        else:
            logits = self.lm_head(x)
            targets, scores = (labels[:, 1:], logits[:, :-1]) if self.head == "lm" else (labels, logits)
        loss = nn.functional.cross_entropy(scores.flatten(0, -2), targets.flatten())
        return {**outputs, "logits": logits, "loss": loss}
