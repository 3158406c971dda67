"""Transformers on the CPU: load, run, train and look inside attention models.

>>> import numpy as np
>>> q = np.eye(2, dtype=np.float32)
>>> output, weights = attention(q, q, q)
>>> weights.shape
(2, 2)
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Sequence, Union

import numpy as np

from . import _heed
from ._heed import Error, Model, Recorder, Tokenizer, __version__

__all__ = [
    "Error",
    "Model",
    "Recorder",
    "Tokenizer",
    "__version__",
    "attention",
    "load",
    "pipeline",
    "record",
    "set_num_threads",
    "train",
]

PathLike = Union[str, "os.PathLike[str]"]


def load(path: PathLike) -> Model:
    """Open a model folder, a run folder, a .gguf file or a name of the local Hugging Face cache."""
    return _heed.load(os.fspath(path))


def set_num_threads(count: int) -> None:
    """Threads that passes use; results do not depend on it."""
    _heed.set_num_threads(count)


def _floats(x: Any) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=np.float32)


def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Scaled dot-product attention of [T, D], [B, T, D] or [B, H, T, D] arrays.

    ``mask`` is True (or 1) where a query may see a key, and is broadcast to the weights.
    Returns the output and the weights.
    """
    allowed = None if mask is None else np.ascontiguousarray(np.asarray(mask) != 0, dtype=np.uint8)
    return _heed.attention(_floats(q), _floats(k), _floats(v), allowed, causal, scale)


def record() -> Recorder:
    """Keep what models compute inside a ``with`` block: attention and activations by hook name."""
    return _heed.Recorder()


class Pipeline:
    """A task on a model, called with texts (or image paths); see :func:`pipeline`."""

    def __init__(self, task: str, path: PathLike) -> None:
        self.task = task
        self._pipeline = _heed.open_pipeline(task, os.fspath(path))

    def __call__(self, inputs: Any, **options: Any) -> Any:
        single = isinstance(inputs, (str, os.PathLike))
        texts = [os.fspath(inputs)] if single else [os.fspath(each) for each in inputs]
        whole = options.pop("return_full_text", True)
        results = self._pipeline.run(texts, json.dumps(options))
        if self.task == "text-generation" and whole:  # as Hugging Face's: with the prompt
            for text, samples in zip(texts, results):
                for sample in samples:
                    sample["generated_text"] = text + sample["generated_text"]
        return results[0] if single else results

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """Text as it is generated, piece by piece; closing the generator stops the generation."""
        if self.task != "text-generation":
            raise ValueError(f"{self.task} does not stream")
        # The generation runs on a thread of its own; its pieces come through a queue.
        import queue
        import threading

        pieces: queue.Queue[Any] = queue.Queue()
        stopped = threading.Event()

        def run() -> None:
            try:
                self._pipeline.stream(text, lambda piece: pieces.put(piece) or not stopped.is_set(), **options)
                pieces.put(None)
            except BaseException as error:  # handed to the reader
                pieces.put(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            stopped.set()
            thread.join()


def pipeline(task: str, model: PathLike) -> Pipeline:
    """A pipeline by Hugging Face's name of the task: text-generation, translation,
    text-classification, token-classification, fill-mask, feature-extraction,
    image-classification or image-to-text."""
    return Pipeline(task, model)


def train(task: str, data: PathLike, out: PathLike, **options: Any) -> dict[str, Any]:
    """Train as ``heed train`` does and leave a run folder in ``out``.

    Further options are those of the run's config.toml: arch, tokenizer, layers, heads, width,
    context, batch, steps, epochs, lr, seed, …
    """
    lines = [f"task = {_toml(task)}", f"data = {_toml(os.fspath(data))}"]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    return _heed.train("\n".join(lines), os.fspath(out))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    text = os.fspath(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
