"""The tutorials' two translation models in plain PyTorch: heed's `heed-seq2seq` and `heed-rnn-seq2seq`.

Both take `input_ids`, `attention_mask` and `decoder_input_ids`, and give a dictionary of outputs.
"""

import math

import torch
from torch import nn


def sinusoids(length, width):
    angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, memory, keep):
        q, k, v = (layer(value).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for layer, value in ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory)))
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~keep, -torch.inf)
        weights = scores.softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class Layer(nn.Module):
    """Each part's output joins its input and is normed after: post-LN."""

    def __init__(self, width, heads, ffn, cross):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.encoder_attn, self.encoder_attn_layer_norm = Attention(width, heads), nn.LayerNorm(width)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(width, ffn), nn.Linear(ffn, width), nn.LayerNorm(width)

    def forward(self, x, keep, memory=None, memory_keep=None):
        """The layer's output, then the weights of its one or two attentions."""
        attended, weights = self.self_attn(x, x, keep)
        x, seen = self.self_attn_layer_norm(x + attended), [weights]
        if memory is not None:
            attended, weights = self.encoder_attn(x, memory, memory_keep)
            x = self.encoder_attn_layer_norm(x + attended)
            seen.append(weights)
        return self.final_layer_norm(x + self.fc2(self.fc1(x).relu())), *seen


class Stack(nn.Module):
    def __init__(self, vocab, width, layers, heads, ffn, cross):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width, heads, ffn, cross) for _ in range(layers))
        self.layer_norm = nn.LayerNorm(width)

    def embed(self, ids):
        weight = self.embed_tokens.weight
        return self.embed_tokens(ids) * math.sqrt(weight.shape[1]) + sinusoids(ids.shape[1], weight.shape[1])


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["d_model"]
        sides = {"encoder": config["vocab_size"], "decoder": config["decoder_vocab_size"]}
        for side, vocab in sides.items():
            sizes = (config[f"{side}_{size}"] for size in ("layers", "attention_heads", "ffn_dim"))
            setattr(self, side, Stack(vocab, width, *sizes, cross=side == "decoder"))
        self.lm_head = nn.Linear(width, config["decoder_vocab_size"])

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        outputs, real = {}, attention_mask.bool()[:, None, None, :]
        memory = self.encoder.embed(input_ids)
        for number, layer in enumerate(self.encoder.layers):
            memory, outputs[f"encoder_attentions.{number}"] = layer(memory, real)
        memory = outputs["encoder_last_hidden_state"] = self.encoder.layer_norm(memory)
        length = decoder_input_ids.shape[1]
        past = torch.ones(length, length, dtype=torch.bool).tril()
        x = self.decoder.embed(decoder_input_ids)
        for number, layer in enumerate(self.decoder.layers):
            x, own, cross = layer(x, past, memory, real)
            outputs[f"decoder_attentions.{number}"], outputs[f"cross_attentions.{number}"] = own, cross
        return {"logits": self.lm_head(self.decoder.layer_norm(x)), **outputs}


class Bahdanau(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w_query, self.w_key = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.v_score = nn.Linear(hidden, 1, bias=False)

    def forward(self, query, memory, real):
        """Query [B, E] over memory [B, T, E]: context [B, E] and weights [B, T]."""
        scores = self.v_score(torch.tanh(self.w_query(query)[:, None] + self.w_key(memory)))[..., 0]
        weights = scores.masked_fill(~real, -torch.inf).softmax(-1)
        return (weights[:, None] @ memory)[:, 0], weights


class RnnSide(nn.Module):
    def __init__(self, vocab, width, inputs, hidden):
        super().__init__()
        self.embed_tokens, self.lstm = nn.Embedding(vocab, width), nn.LSTMCell(inputs, hidden)


class Rnn(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, hidden, vocab = config["d_model"], config["hidden_size"], config["decoder_vocab_size"]
        self.encoder = RnnSide(config["vocab_size"], width, width, hidden)
        self.decoder = RnnSide(vocab, width, width + hidden, hidden)
        self.decoder.attention = Bahdanau(hidden, config["attention_size"])
        self.decoder.out = nn.Linear(2 * hidden, vocab)

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        real = attention_mask.bool()
        hidden = cell = torch.zeros(len(input_ids), self.encoder.lstm.hidden_size).double()
        memory = []
        for step, x in enumerate(self.encoder.embed_tokens(input_ids).unbind(1)):
            on = real[:, step, None]
            new_hidden, new_cell = self.encoder.lstm(x, (hidden, cell))
            hidden, cell = torch.where(on, new_hidden, hidden), torch.where(on, new_cell, cell)
            memory.append(torch.where(on, new_hidden, 0.0))
        memory = torch.stack(memory, 1)
        logits, seen = [], []
        for x in self.decoder.embed_tokens(decoder_input_ids).unbind(1):
            context, weights = self.decoder.attention(hidden, memory, real)
            hidden, cell = self.decoder.lstm(torch.cat([x, context], -1), (hidden, cell))
            logits.append(self.decoder.out(torch.cat([hidden, context], -1)))
            seen.append(weights)
        return {"logits": torch.stack(logits, 1), "encoder_last_hidden_state": memory,
                "cross_attentions.0": torch.stack(seen, 1)[:, None]}
