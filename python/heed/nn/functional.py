"""Layers without parameters and losses, as functions."""

from __future__ import annotations

from .. import _heed
from .._heed import (
    Tensor,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    linear,
    linear_cross_entropy,
    mse_loss,
    relu,
    scaled_dot_product_attention,
    sigmoid,
    silu,
    tanh,
)

__all__ = [
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "log_softmax",
    "mse_loss",
    "one_hot",
    "relu",
    "rms_norm",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """Positive numbers that sum to 1 along an axis; a row of -inf gives zeros.

    >>> import heed
    >>> softmax(heed.tensor([0.0, 0.0]))
    tensor([0.5 0.5])
    """
    return _heed.softmax(input, dim)


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    return _heed.log_softmax(input, dim)


def layer_norm(
    input: Tensor,
    normalized_shape: tuple[int, ...] | list[int] | int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """LayerNorm over the last axis."""
    size = normalized_shape if isinstance(normalized_shape, int) else normalized_shape[-1]
    return _heed.layer_norm(input, _heed.ones(size) if weight is None else weight, bias, eps)


def rms_norm(input: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return _heed.rms_norm(input, weight, eps)


def one_hot(input: Tensor, num_classes: int) -> Tensor:
    """1 at each id, 0 elsewhere: ids.shape + [num_classes]."""
    return _heed.embedding(input, _heed.eye(num_classes)).long()
