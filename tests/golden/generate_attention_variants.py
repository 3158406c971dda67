"""Additive and Luong scores, Longformer, BigBird, Performer, FNet and Swin."""

import tempfile

import torch
from safetensors.torch import load_file
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig, SwinConfig, SwinModel
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
from transformers.models.swin.modeling_swin import window_partition, window_reverse
from transformers.utils.logging import disable_progress_bar

from common import gradients, leaves, rounded, save, seed
from reference import attend, combine, scores, visible


def write(name, variant, inputs, compute, extra=None, rows=None, **metadata):
    """Saves inputs, what `compute` makes of them, and gradients of the float inputs. `rows` [B, T] are the queries
    that count: the others' grad_output is zero, so that whatever is done with them leaves the gradients alone."""
    wanted = leaves({key: value for key, value in inputs.items() if value.is_floating_point()})
    results = compute(**{**inputs, **wanted})
    output = results["output"]
    grad_output = rounded(*output.shape)
    if rows is not None:
        grad_output *= rows[:, None, :, None]
    save(f"attention_variants/{name}.safetensors",
         {**inputs, **(extra or {}), "grad_output": grad_output, **results,
          **gradients(output, grad_output, wanted)}, variant=variant, **metadata)
    return output


def padding_of(lengths, keys):
    return (torch.arange(keys) < torch.tensor(lengths)[:, None]).to(torch.uint8)


def scored(score_of):
    """The variant whose scores are score_of(q, k, **weights), with key padding."""
    def compute(q, k, v, key_padding, **weights):
        score, keep = score_of(q, k, **weights), visible(q.shape[2], k.shape[2])
        results = attend(*combine(score, keep, None, key_padding), v)
        return dict(zip(("output", "weights", "lse"), results))
    return compute


def additive(q, k, w_query, w_key, v_score):
    return torch.tanh((q @ w_query.T)[..., :, None, :] + (k @ w_key.T)[..., None, :, :]) @ v_score


def luong_general(q, k, w_general):
    return q @ w_general @ k.mT


def luong_concat(q, k, w_concat, v_score):
    pairs = (*q.shape[:3], k.shape[2])
    both = torch.cat([q[..., :, None, :].expand(*pairs, -1), k[..., None, :, :].expand(*pairs, -1)], -1)
    return torch.tanh(both @ w_concat.T) @ v_score


def classic():
    """Each with one head and with two, which share the weights; query and key widths differ where they may."""
    hidden, wide = 6, {"dq": 7, "dk": 9}
    kinds = {
        "additive": (additive, wide, lambda dq, dk: {
            "w_query": rounded(hidden, dq, std=0.5), "w_key": rounded(hidden, dk, std=0.5),
            "v_score": rounded(hidden)}),
        "luong-dot": (lambda q, k: q @ k.mT, {"dq": 8, "dk": 8}, lambda dq, dk: {}),
        "luong-general": (luong_general, wide, lambda dq, dk: {"w_general": rounded(dq, dk, std=0.5)}),
        "luong-concat": (luong_concat, wide, lambda dq, dk: {
            "w_concat": rounded(hidden, dq + dk, std=0.5), "v_score": rounded(hidden)}),
    }
    for variant, (score_of, widths, weights_of) in kinds.items():
        for heads in (1, 2):
            inputs = {"q": rounded(2, heads, 4, widths["dq"]), "k": rounded(2, heads, 6, widths["dk"]),
                      "v": rounded(2, heads, 6, 5), "key_padding": padding_of((6, 3), 6), **weights_of(**widths)}
            write(f"{variant.replace('-', '_')}_h{heads}", variant, inputs, scored(score_of))


def split(x, heads):
    """[B, T, E] to [B, H, T, D]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def projected(module, names, hidden, heads):
    """The module's own projections, in float64 from its float32 weights, rounded as they are stored."""
    result = {}
    for short, name in names.items():
        layer = getattr(module, name)
        result[short] = split(hidden @ layer.weight.double().T + layer.bias.double(), heads).detach().float().double()
    return result


def randomize(module, std=0.3):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=std)


def longformer():
    batch, length, width, heads, window = 2, 16, 12, 3, 4
    config = LongformerConfig(hidden_size=width, num_attention_heads=heads, attention_window=[window])
    module = LongformerSelfAttention(config, 0).eval()
    randomize(module)
    hidden = rounded(batch, length, width)
    real, is_global = padding_of((length, 12), length), torch.zeros(batch, length, dtype=torch.uint8)
    is_global[0, 0] = is_global[1, 0] = is_global[1, 5] = 1

    def compute(q, k, v, q_global, k_global, v_global, key_padding, global_mask):
        keep = visible(length, length, window=(window // 2, window // 2)) | global_mask.bool()[:, None, None, :]
        local = attend(*combine(scores(q, k), keep, None, key_padding), v)[0]
        keep = visible(length, length)
        everywhere = attend(*combine(scores(q_global, k_global), keep, None, key_padding), v_global)[0]
        output = torch.where(global_mask.bool()[:, None, :, None], everywhere, local)
        return {"output": output * key_padding[:, None, :, None]}

    names = {"q": "query", "k": "key", "v": "value"}
    names |= {f"{short}_global": f"{name}_global" for short, name in names.items()}
    inputs = {**projected(module, names, hidden, heads), "key_padding": real, "global_mask": is_global}
    output = write("longformer", "longformer", inputs, compute, {"hidden_states": hidden, **module.state_dict()}, real,
                   attention_window=window)
    mask = torch.where(real == 0, -10000.0, torch.where(is_global == 1, 10000.0, 0.0))
    theirs = module(hidden.float(), mask, mask < 0, mask > 0, True)[0]
    torch.testing.assert_close(split(theirs, heads), output.float())


def bigbird():
    batch, length, width, heads, block, random = 2, 44, 12, 3, 4, 2
    blocks = length // block
    config = BigBirdConfig(hidden_size=width, num_attention_heads=heads, block_size=block, num_random_blocks=random,
                           max_position_embeddings=length, use_bias=True)
    module = BigBirdBlockSparseAttention(config, seed=0).eval()
    randomize(module)
    hidden, real = rounded(batch, length, width), padding_of((length, 34), length)

    def counts(random_blocks):
        """[H, blocks, blocks]: how often each key block is looked at by each query block."""
        count = torch.zeros(heads, blocks, blocks, dtype=torch.float64)
        for row in range(1, blocks - 1):
            count[:, row, list({0, row - 1, row, row + 1, blocks - 1})] = 1
            for head in range(heads):
                for column in random_blocks[head, row - 1].tolist():
                    count[head, row, column] += 1
        count[:, [0, -1]] = 1
        return count

    def compute(q, k, v, key_padding, random_blocks):
        log_count = counts(random_blocks).repeat_interleave(block, 1).repeat_interleave(block, 2).log()
        kept = combine(scores(q, k), visible(length, length), log_count[None], key_padding)
        return {"output": attend(*kept, v)[0] * key_padding[:, None, :, None]}

    def honest():
        """For every head and inner query block, blocks that the window and the global blocks do not cover."""
        table = torch.empty(heads, blocks - 2, random, dtype=torch.int64)
        for head in range(heads):
            for row in range(1, blocks - 1):
                free = torch.tensor([b for b in range(1, blocks - 1) if abs(b - row) > 1])
                table[head, row - 1] = free[torch.randperm(len(free))[:random]]
        return table

    blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(real.float(), block)
    tables = {"bigbird_hf_eval": torch.zeros(heads, blocks - 2, random, dtype=torch.int64), "bigbird_random": honest()}
    for name, table in tables.items():
        inputs = {**projected(module, {"q": "query", "k": "key", "v": "value"}, hidden, heads), "key_padding": real,
                  "random_blocks": table}
        output = write(name, "bigbird", inputs, compute, {"hidden_states": hidden, **module.state_dict()}, real,
                       block_size=block, num_random_blocks=random)
        if name == "bigbird_random":
            module._bigbird_block_rand_mask_with_head = lambda **_: list(table.numpy())
        theirs = module(hidden.float(), band, from_mask, to_mask, blocked, blocked)[0]
        torch.testing.assert_close(split(theirs, heads), output.float())


def performer():
    features, dim, length = 12, 8, 11

    def exponents(x, projection):
        x = x * dim ** -0.25
        return x @ projection.T - x.square().sum(-1, keepdim=True) / 2

    def noncausal(q, k, v, projection):
        """One maximum over all keys and features, one for each query; they cancel but for the 1e-4."""
        query, key = exponents(q, projection), exponents(k, projection)
        query = ((query - query.amax(-1, keepdim=True)).exp() + 1e-4) * features ** -0.5
        key = ((key - key.amax((-1, -2), keepdim=True)).exp() + 1e-4) * features ** -0.5
        return query @ (key.mT @ v) / (query @ key.sum(-2, keepdim=True).mT)

    def causal(q, k, v, projection):
        """Row i is what attention over the first i+1 keys alone would give."""
        rows = [noncausal(q[..., i:i + 1, :], k[..., :i + 1, :], v[..., :i + 1, :], projection) for i in range(length)]
        return torch.cat(rows, -2)

    directions = [torch.linalg.qr(torch.randn(dim, dim))[0] for _ in range(2)]
    lengths = torch.randn(features, dim).norm(dim=-1, keepdim=True)
    projection = (torch.cat(directions)[:features] * lengths).double()
    inputs = {name: rounded(2, 2, length, dim) for name in "qkv"}
    with torch.random.fork_rng():
        seed(23)
        grad_output = rounded(2, 2, length, dim)
    for name, function in {"none": noncausal, "top-left": causal}.items():
        wanted = leaves(inputs)
        output = function(**wanted, projection=projection)
        save(f"attention_variants/performer_{'causal' if name == 'top-left' else 'full'}.safetensors",
             {**inputs, "projection": projection, "output": output, "grad_output": grad_output,
              **gradients(output, grad_output, wanted)},
             variant="performer", causal=name)


def fnet():
    for length, width in ((8, 16), (7, 12)):
        write(f"fnet_{length}_{width}", "fnet", {"hidden_states": rounded(2, length, width)},
              lambda hidden_states: {"output": torch.fft.fft2(hidden_states).real})


SWIN = {"width": 12, "heads": 3, "window": 4}


def swin_windows(height, columns, shift):
    """[T, T] over a grid, row by row: whether two places share a window after the shift and were neighbours before
    it, and where in the bias table their distance stands."""
    window = SWIN["window"]
    row, column = torch.meshgrid(torch.arange(height), torch.arange(columns), indexing="ij")
    row, column = ((row - shift) % height).flatten(), ((column - shift) % columns).flatten()
    region = torch.stack([row // window, column // window, row >= height - shift, column >= columns - shift])
    inside = torch.stack([row % window, column % window])
    distance = inside[:, :, None] - inside[:, None, :] + window - 1
    return (region[:, :, None] == region[:, None, :]).all(0), distance[0] * (2 * window - 1) + distance[1]


def their_windows(layer, grid):
    """What the layer's attention makes of a grid [1, height, columns, E] before its output projection."""
    attention, window, (_, height, columns, width) = layer.attention, SWIN["window"], grid.shape
    windows = window_partition(layer.cyclic_shift(grid), window).flatten(1, 2)
    projection, attention.o_proj = attention.o_proj, torch.nn.Identity()
    output = attention(windows, layer.get_attn_mask(height, columns, grid.dtype, grid.device))[0]
    attention.o_proj = projection
    output = window_reverse(output.unflatten(1, (window, window)), window, height, columns)
    return layer.cyclic_shift(output, reverse=True).reshape(1, height * columns, width)


def swin_attention(layer, table, shift):
    """q, k and v over a grid that the windows divide."""
    height, columns, heads = 8, 12, SWIN["heads"]
    keep, index = swin_windows(height, columns, shift)

    def compute(q, k, v, relative_position_bias_table):
        bias = relative_position_bias_table[index].permute(2, 0, 1)[None]
        return {"output": attend(scores(q, k) + bias, keep, v)[0]}

    grid = rounded(1, height * columns, SWIN["width"])
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj"}
    inputs = {**projected(layer.attention, names, grid, heads), "relative_position_bias_table": table.double()}
    output = write(f"swin_shift{shift}", "swin", inputs, compute, height=height, width=columns, window=SWIN["window"],
                   shift=shift)
    theirs = their_windows(layer, grid.float().view(1, height, columns, -1))
    torch.testing.assert_close(split(theirs, heads), output.float(), rtol=1e-4, atol=1e-5)


def swin_layer(layer, weights, height, columns, shift):
    hidden = rounded(2, height * columns, SWIN["width"]).float()
    save(f"attention_variants/swin_layer_shift{shift}_{height}x{columns}.safetensors",
         {"hidden_states": hidden, "output": layer(hidden, (height, columns))[0], **weights}, variant="swin",
         height=height, width=columns, window=SWIN["window"], shift=shift, heads=SWIN["heads"], layer_norm_eps=1e-5)


def swin():
    config = SwinConfig(image_size=16, patch_size=2, num_channels=1, embed_dim=SWIN["width"], depths=[2],
                        num_heads=[SWIN["heads"]], window_size=SWIN["window"], mlp_ratio=2.0,
                        attn_implementation="eager")
    model = SwinModel(config, add_pooling_layer=False).eval()
    randomize(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        checkpoint = load_file(f"{folder}/model.safetensors")
    for number, layer in enumerate(model.encoder.layers[0].blocks):
        prefix, shift = f"encoder.layers.0.blocks.{number}.", number * SWIN["window"] // 2
        weights = {name.removeprefix(prefix): value for name, value in checkpoint.items() if name.startswith(prefix)}
        swin_layer(layer, weights, 8, 12, shift)
        swin_layer(layer, weights, 7, 6, shift)
        swin_attention(layer, weights["attention.self.relative_position_bias_table"], shift)


if __name__ == "__main__":
    seed(3)
    disable_progress_bar()
    classic()
    longformer()
    bigbird()
    performer()
    fnet()
    swin()
