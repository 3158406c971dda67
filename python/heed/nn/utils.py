"""Gradient clipping."""

from __future__ import annotations

from collections.abc import Iterable

from .. import _heed
from .._heed import Tensor


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scales all gradients so that their norm is at most ``max_norm``; returns the norm before."""
    return _heed.clip_grad_norm_(list(parameters), max_norm)
