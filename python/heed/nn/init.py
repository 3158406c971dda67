"""Initial values of parameters, written in place."""

from __future__ import annotations

import math

from .._heed import Tensor


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    return tensor.normal_(mean, std)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    return tensor.uniform_(a, b)


def zeros_(tensor: Tensor) -> Tensor:
    return tensor.zero_()


def ones_(tensor: Tensor) -> Tensor:
    return tensor.fill_(1)


def constant_(tensor: Tensor, value: float) -> Tensor:
    return tensor.fill_(value)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    bound = gain * math.sqrt(6 / (tensor.size(0) + tensor.size(1)))
    return tensor.uniform_(-bound, bound)
