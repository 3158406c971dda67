"""Attention written out in float64: the formula that the attention files hold values of."""

import torch

INFINITY = float("inf")


def visible(queries, keys, causal="none", window=(-1, -1)):
    """[Tq, Tk] booleans: whether query i may look at key j by position alone."""
    offset = keys - queries if causal == "bottom-right" else 0
    distance = torch.arange(keys)[None, :] - (torch.arange(queries)[:, None] + offset)
    left, right = window
    keep = torch.ones(queries, keys, dtype=torch.bool)
    if causal != "none":
        keep &= distance <= 0
    if left >= 0:
        keep &= distance >= -left
    if right >= 0:
        keep &= distance <= right
    return keep


def scores(q, k, scale=None, softcap=None):
    """Scaled and capped products [B, Hq, Tq, Tk]; each group of Hq / Hkv query heads shares one key head."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    result = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return softcap * torch.tanh(result / softcap) if softcap else result


def attend(score, keep, v):
    """Softmax of the scores over the kept keys, then the weighted sum of v: output, weights, log-sum-exp.
    A row that keeps no key gives zeros, and -infinity for its log-sum-exp."""
    v = v.repeat_interleave(score.shape[1] // v.shape[1], dim=1)
    keep = keep.broadcast_to(score.shape)
    some = keep.any(-1, keepdim=True)
    masked = torch.where(some, score.masked_fill(~keep, -INFINITY), 0.0)
    weights = torch.where(some, torch.softmax(masked, -1), 0.0)
    lse = torch.where(some[..., 0], torch.logsumexp(masked, -1), -INFINITY)
    return weights @ v, weights, lse


def combine(score, keep, mask=None, key_padding=None):
    """Applies a mask (boolean: keep; float: add) and a key padding mask [B, Tk] to scores and kept keys."""
    if key_padding is not None:
        keep = keep & key_padding.bool()[:, None, None, :]
    if mask is not None and mask.is_floating_point():
        finite = mask != -INFINITY
        keep = keep & finite
        score = score + torch.where(finite, mask, 0.0)
    elif mask is not None:
        keep = keep & mask.bool()
    return score, keep


def attention(q, k, v, mask=None, key_padding=None, causal="none", window=(-1, -1), scale=None, softcap=None):
    keep = visible(q.shape[2], k.shape[2], causal, window)
    return attend(*combine(scores(q, k, scale, softcap), keep, mask, key_padding), v)
