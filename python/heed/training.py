"""Training runs, as ``heed train`` makes them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Union

from . import _heed
from .progress import bar

PathLike = Union[str, "os.PathLike[str]"]


class Run:
    """A run folder: its metrics, its model, its curves."""

    def __init__(self, path: PathLike, result: dict[str, Any] | None = None) -> None:
        self.path, self.result = os.fspath(path), result or {}

    def __getitem__(self, name: str) -> Any:
        return self.result[name]

    def __contains__(self, name: object) -> bool:
        return name in self.result

    def keys(self) -> Any:
        return self.result.keys()

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Every line of metrics.jsonl."""
        with open(os.path.join(self.path, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def curves(self) -> Any:
        """Loss, and validation loss where there is one, as a picture."""
        from .notebook import plot

        lines = self.metrics
        series = {}
        for name in ("loss", "val_loss"):
            points = [(each["step"], each[name]) for each in lines if name in each]
            if points:
                series[name] = ([x for x, _ in points], [y for _, y in points])
        return plot(series, title=os.path.basename(self.path))

    def load(self) -> Any:
        """The trained model."""
        from .model import load

        return load(self.path)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{name}</td><td>{value:.4g}</td></tr>" for name, value in self._numbers())
        return f"<div><table>{rows}</table>{self.curves().source}</div>"

    def _numbers(self) -> list[tuple[str, float]]:
        return [(name, value) for name, value in self.result.items() if isinstance(value, (int, float))]

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self._numbers())
        return f"heed.Run({self.path!r}: {numbers})"


def train(task: str, data: PathLike, out: PathLike, progress: bool = True, **options: Any) -> Run:
    """Train as ``heed train`` does and leave a run folder in ``out``.

    Further options are those of the run's config.toml: arch, tokenizer, layers, heads, width,
    context, batch, steps, epochs, lr, seed, precision, resume, … Ctrl-C saves a checkpoint and
    raises KeyboardInterrupt; ``resume=True`` goes on from there. ``progress`` shows a bar where tqdm
    is installed.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("the quick brown fox\\n" * 50)
    >>> run = train("lm", folder / "text.txt", folder / "run", progress=False, tokenizer="char", layers=1,
    ...             heads=1, width=8, context=8, batch=2, steps=3)
    >>> run["steps"], [line["step"] for line in run.metrics if "loss" in line][0]
    (3, 1)
    >>> run.load().num_layers
    1
    """
    lines = [f"task = {_toml(task)}", f"data = {_toml(os.fspath(data))}"]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    return Run(out, _heed.train("\n".join(lines), out, _bar() if progress else None))


def _bar() -> Any:
    shown = bar("step")
    return shown and (lambda step, steps, loss: shown(step, steps, loss=f"{loss:.3f}"))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    text = os.fspath(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
