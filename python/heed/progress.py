"""Progress bars, where tqdm is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bar(unit: str = "it", scale: bool = False) -> Callable[..., None] | None:
    """A function that moves a bar to ``done`` of ``total``; further arguments are shown behind it."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return None
    shown = tqdm(unit=unit, unit_scale=scale)

    def update(done: int, total: int, **values: Any) -> None:
        shown.total = total
        shown.update(done - shown.n)
        if values:
            shown.set_postfix(values, refresh=False)
        if done == total:
            shown.close()

    return update
