"""Optimizers with PyTorch's names; every update is one pass over parameter, gradient and state.

>>> import heed
>>> from heed import nn, optim
>>> layer = nn.Linear(2, 1)
>>> optimizer = optim.AdamW(layer.parameters(), lr=1e-2)
>>> loss = nn.functional.mse_loss(layer(heed.ones(4, 2)), heed.ones(4, 1))
>>> loss.backward()
>>> optimizer.step()
>>> optimizer.zero_grad()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

from .. import _heed
from .._heed import Tensor
from . import lr_scheduler

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]

Parameters = Iterable[Union[Tensor, tuple[str, Tensor], Mapping[str, Any]]]


class Optimizer:
    """Parameters in groups, each with options of its own (``param_groups[0]["lr"]`` may be set)."""

    def __init__(self, kind: _heed.OptimizerKind, params: Parameters, options: dict[str, Any]) -> None:
        given = list(params)
        if not given:
            raise ValueError("an optimizer needs parameters")
        groups = given if isinstance(given[0], Mapping) else [{"params": given}]
        self.param_groups: list[dict[str, Any]] = []
        self._groups: list[_heed.Optimizer] = []
        count = 0
        for group in groups:
            assert isinstance(group, Mapping)
            settings = {**options, **{name: value for name, value in group.items() if name != "params"}}
            named: list[tuple[str, Tensor]] = []
            for each in group["params"]:
                named.append(each if isinstance(each, tuple) else (str(count), each))
                count += 1
            self.param_groups.append({"params": [tensor for _, tensor in named], **settings})
            betas = settings.get("betas", (0.9, 0.999))
            self._groups.append(
                _heed.Optimizer(
                    kind,
                    named,
                    settings["lr"],
                    betas[0],
                    betas[1],
                    settings.get("eps", 1e-8),
                    settings["weight_decay"],
                    settings.get("momentum", 0.0),
                    settings.get("nesterov", False),
                )
            )

    def step(self) -> None:
        """Updates every parameter that has a gradient."""
        for settings, group in zip(self.param_groups, self._groups):
            group.set_lr(settings["lr"])
            group.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients."""
        for group in self._groups:
            group.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """The state by name; :func:`heed.save` writes it."""
        return {f"{i}.{name}": tensor for i, group in enumerate(self._groups) for name, tensor in group.state().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for i, group in enumerate(self._groups):
            prefix = f"{i}."
            group.load_state({name[len(prefix) :]: each for name, each in state.items() if name.startswith(prefix)})


class SGD(Optimizer):
    """Stochastic gradient descent; ``weight_decay`` is added to the gradient."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        options = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(_heed.OptimizerKind.sgd, params, options)


class Adam(Optimizer):
    """Adam; ``weight_decay`` is added to the gradient."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(_heed.OptimizerKind.adam, params, options)


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(_heed.OptimizerKind.adamw, params, options)
