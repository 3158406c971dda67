"""Learning rates over time: call ``step()`` after each ``optimizer.step()``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import _heed

if TYPE_CHECKING:
    from . import Optimizer


class LambdaLR:
    """The first learning rate times ``lr_lambda(steps so far)``."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float]) -> None:
        self.optimizer, self.lr_lambda = optimizer, lr_lambda
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = -1
        self.step()

    def step(self) -> None:
        self.last_epoch += 1
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = base * self.lr_lambda(self.last_epoch)

    def get_last_lr(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]


class StepLR(LambdaLR):
    """Times ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        super().__init__(optimizer, lambda step: gamma ** (step // step_size))


class CosineAnnealingLR(LambdaLR):
    """Down to ``eta_min`` in ``T_max`` steps along a cosine."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        base = float(optimizer.param_groups[0]["lr"])
        low = eta_min / base
        super().__init__(optimizer, lambda step: low + (1 - low) * (1 + math.cos(math.pi * step / T_max)) / 2)


class WarmupLR(LambdaLR):
    """The library's schedule: a linear warm-up to the optimizer's rate, then ``kind``: constant,
    cosine, linear or inverse_sqrt. ``floor`` is the fraction that cosine and linear end at.

    >>> import heed
    >>> from heed import optim
    >>> optimizer = optim.SGD([heed.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = WarmupLR(optimizer, warmup=2, total=10, kind="linear")
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, warmup: int, total: int, kind: str = "cosine", floor: float = 0.0
    ) -> None:
        super().__init__(optimizer, lambda step: _heed.schedule_lr(kind, 1.0, warmup, total, floor, step + 1))
