"""Scaled-dot-product attention: masks, windows, head groups and lengths, each with weights and gradients."""

from dataclasses import dataclass, field

import torch
from torch.nn import functional as F

from common import gradients, leaves, rounded, save, seed
from reference import INFINITY, attention, combine, visible


@dataclass
class Case:
    batch: int
    heads: tuple  # query heads, key heads
    lengths: tuple  # queries, keys
    dim: int = 8
    value_dim: int = 0  # 0: as dim
    mask: str = ""  # "bool", "float" or "float-inf"; `mask_shape` broadcasts to [B, Hq, Tq, Tk]
    mask_shape: tuple = ()
    padding: tuple = ()  # real keys in each batch row
    options: dict = field(default_factory=dict)
    store_weights: bool = True


B, H, Q, K = 2, 4, 5, 6  # the sizes of the mask cases


def mask_case(kind, *shape, **options):
    return Case(B, (H, 2), (Q, K), mask=kind, mask_shape=shape, options=options)


CASES = {
    "plain_d8": Case(1, (1, 1), (5, 5)),
    "plain_d40": Case(2, (4, 4), (5, 6), 40),
    "plain_d128": Case(1, (1, 1), (6, 9), 128),
    "gqa_d64": Case(2, (4, 2), (5, 7), 64),
    "mqa_d80": Case(1, (6, 1), (5, 6), 80),
    "batch3_value_dim": Case(3, (2, 2), (5, 6), 8, 12),
    "one_key": Case(2, (4, 2), (3, 1)),
    "one_query": Case(2, (4, 2), (1, 9)),
    "top_left_square": Case(2, (4, 2), (9, 9), options={"causal": "top-left"}),
    "top_left_wide": Case(2, (4, 4), (4, 9), options={"causal": "top-left"}),
    "top_left_tall": Case(2, (4, 4), (9, 4), options={"causal": "top-left"}),
    "bottom_right_square": Case(1, (6, 1), (9, 9), options={"causal": "bottom-right"}),
    "bottom_right_wide": Case(2, (4, 2), (4, 9), options={"causal": "bottom-right"}),
    "bottom_right_tall": Case(2, (4, 2), (9, 4), options={"causal": "bottom-right"}),
    "bottom_right_one_query": Case(2, (4, 2), (1, 9), options={"causal": "bottom-right"}),
    "window_both": Case(2, (4, 2), (9, 9), options={"window": (2, 1)}),
    "window_left": Case(1, (4, 2), (9, 9), options={"window": (3, 0)}),
    "window_right": Case(1, (4, 2), (7, 9), options={"window": (-1, 2)}),
    "window_self": Case(1, (4, 2), (6, 6), options={"window": (0, 0)}),
    "window_passes_keys": Case(1, (4, 2), (9, 4), options={"window": (2, 2)}),
    "window_top_left": Case(1, (4, 2), (9, 9), options={"window": (3, -1), "causal": "top-left"}),
    "window_bottom_right": Case(1, (4, 2), (5, 9), options={"window": (3, 2), "causal": "bottom-right"}),
    "mask_bool_full": mask_case("bool", B, H, Q, K),
    "mask_bool_batch": mask_case("bool", B, 1, 1, 1),
    "mask_bool_head": mask_case("bool", 1, H, 1, 1),
    "mask_bool_query": mask_case("bool", 1, 1, Q, 1),
    "mask_bool_key": mask_case("bool", 1, 1, 1, K),
    "mask_bool_batch_key": mask_case("bool", B, 1, 1, K),
    "mask_bool_head_query_key": mask_case("bool", 1, H, Q, K),
    "mask_bool_rank2": mask_case("bool", Q, K),
    "mask_bool_causal": mask_case("bool", B, 1, Q, K, causal="bottom-right"),
    "mask_float_full": mask_case("float", B, H, Q, K),
    "mask_float_head": mask_case("float", 1, H, Q, K),
    "mask_float_batch_key": mask_case("float", B, 1, 1, K),
    "mask_float_query": mask_case("float", 1, 1, Q, 1),
    "mask_float_rank2": mask_case("float", Q, K),
    "mask_float_infinite": mask_case("float-inf", B, 1, Q, K),
    "mask_float_causal": mask_case("float", 1, H, Q, K, causal="bottom-right"),
    "padding": Case(3, (4, 2), (5, 9), padding=(9, 4, 1)),
    "padding_bottom_right": Case(3, (4, 2), (9, 9), padding=(9, 4, 1), options={"causal": "bottom-right"}),
    "padding_whole_row": Case(3, (4, 2), (5, 9), padding=(9, 0, 3)),
    "softcap": Case(2, (4, 2), (5, 7), options={"softcap": 1.5}),
    "softcap_mask_float": mask_case("float", 1, H, Q, K, softcap=2.0),
    "scale": Case(2, (4, 2), (5, 7), options={"scale": 0.7}),
    "scale_one": Case(1, (4, 4), (5, 5), options={"scale": 1.0, "causal": "top-left"}),
    "tile_1_1": Case(1, (1, 1), (1, 1)),
    "tile_1_64": Case(1, (1, 1), (1, 64), 64),
    "tile_1_65": Case(1, (2, 1), (1, 65)),
    "tile_63_63": Case(1, (1, 1), (63, 63), options={"causal": "top-left"}),
    "tile_64_64": Case(1, (1, 1), (64, 64), options={"causal": "bottom-right"}),
    "tile_65_65": Case(1, (1, 1), (65, 65), 64, options={"causal": "top-left"}),
    "tile_64_65": Case(1, (2, 1), (64, 65), options={"causal": "bottom-right"}),
    "tile_65_64": Case(1, (2, 1), (65, 64), options={"causal": "bottom-right"}),
    "tile_127_127": Case(1, (1, 1), (127, 127)),
    "tile_127_63": Case(1, (1, 1), (127, 63), options={"window": (20, 30)}),
    "tile_63_127": Case(1, (1, 1), (63, 127), padding=(100,)),
    "tile_128_129": Case(1, (1, 1), (128, 129), options={"window": (40, 0), "causal": "bottom-right"}),
    "long_causal": Case(1, (1, 1), (1000, 1000), options={"causal": "top-left"}, store_weights=False),
    "long_keys": Case(1, (1, 1), (65, 1000), padding=(990,), store_weights=False),
    "everything": Case(3, (4, 2), (6, 11), 40, 8, "float", (1, 4, 6, 11), (11, 8, 3),
                       {"causal": "bottom-right", "window": (6, -1), "softcap": 3.0, "scale": 0.5}),
}


def inputs_of(case):
    (heads, key_heads), (queries, keys) = case.heads, case.lengths
    q = rounded(case.batch, heads, queries, case.dim)
    k = rounded(case.batch, key_heads, keys, case.dim)
    v = rounded(case.batch, key_heads, keys, case.value_dim or case.dim)
    tensors = {"q": q, "k": k, "v": v}
    if case.mask == "bool":
        tensors["mask"] = (torch.rand(case.mask_shape) < 0.6).to(torch.uint8)
    elif case.mask:
        tensors["mask"] = rounded(*case.mask_shape)
        if case.mask == "float-inf":
            tensors["mask"][torch.rand(case.mask_shape) < 0.5] = -INFINITY
    if case.padding:
        tensors["key_padding"] = (torch.arange(keys) < torch.tensor(case.padding)[:, None]).to(torch.uint8)
    return tensors


def agrees_with_torch(tensors, options, output):
    """Holds the formula against torch's own attention, which knows no soft-cap."""
    if "softcap" in options:
        return
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    gqa, scale = q.shape[1] != k.shape[1], options.get("scale")
    keep = visible(q.shape[2], k.shape[2], options.get("causal", "none"), options.get("window", (-1, -1)))
    zero = torch.zeros(q.shape[0], q.shape[1], q.shape[2], k.shape[2], dtype=torch.float64)
    added, keep = combine(zero, keep, tensors.get("mask"), tensors.get("key_padding"))
    theirs = F.scaled_dot_product_attention(q, k, v, added.masked_fill(~keep, -INFINITY), scale=scale, enable_gqa=gqa)
    torch.testing.assert_close(theirs, output)
    if set(tensors) == {"q", "k", "v"} and options == {"causal": "top-left"}:
        theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa)
        torch.testing.assert_close(theirs, output)


def write(name, tensors, options, store_weights=True, poison=None):
    """`poison` puts NaN into the inputs after the expected values are known."""
    wanted = leaves({key: value for key, value in tensors.items() if value.is_floating_point()})
    output, weights, lse = attention(**{**tensors, **wanted}, **options)
    agrees_with_torch(tensors, options, output)
    grad_output = rounded(*output.shape)
    grads = gradients(output, grad_output, wanted)
    if poison:
        poison(tensors)
    results = {"output": output, "weights": weights, "lse": lse} if store_weights else {"output": output, "lse": lse}
    metadata = {key: ",".join(map(str, value)) if key == "window" else value for key, value in options.items()}
    save(f"attention/{name}.safetensors", {**tensors, "grad_output": grad_output, **results, **grads}, **metadata)


def poison_padding(tensors):
    """NaN and infinity in keys and values that nothing may look at."""
    hidden = tensors["key_padding"] == 0
    tensors["k"].transpose(1, 2)[hidden] = float("nan")
    tensors["v"].transpose(1, 2)[hidden] = INFINITY


def special_cases():
    poisoned = Case(3, (4, 2), (5, 9), padding=(9, 4, 1))
    write("padding_nan", inputs_of(poisoned), {}, poison=poison_padding)
    write("padding_nan_causal", inputs_of(poisoned), {"causal": "bottom-right"}, poison=poison_padding)

    stored_as_bool = inputs_of(mask_case("bool", B, 1, Q, K))
    stored_as_bool["mask"] = stored_as_bool["mask"].bool()
    write("mask_stored_as_bool", stored_as_bool, {})

    rows = inputs_of(mask_case("bool", 1, 1, Q, K))
    rows["mask"][..., 1:3, :] = 0
    write("fully_masked_rows", rows, {})

    # Finite but so negative that a sentinel in place of -infinity would lose them.
    negative = inputs_of(mask_case("float", 1, 1, Q, K))
    negative["mask"][..., 2, :] = -1e30
    negative["mask"][..., 3, :3] = -1e30
    negative["mask"][..., 3, 3:] = -INFINITY
    negative["mask"] = negative["mask"].float().double()
    write("mask_float_very_negative", negative, {})

    sharp = inputs_of(Case(1, (2, 2), (5, 7)))
    sharp["q"] *= 16
    write("sharp", sharp, {})


if __name__ == "__main__":
    seed(2)
    for name, case in CASES.items():
        write(name, inputs_of(case), case.options, case.store_weights)
    special_cases()
