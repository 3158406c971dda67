"""One-liners by Hugging Face's task names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Union

from . import _heed
from .model import TextStream
from .progress import bar

PathLike = Union[str, "os.PathLike[str]"]


class Pipeline:
    """A task on a model, called with texts (or paths of images and sounds); see :func:`pipeline`."""

    def __init__(self, task: str, path: PathLike) -> None:
        self._pipeline = _heed.open_pipeline(task, path)
        self.task = self._pipeline.task
        self._given = task, os.fspath(path)

    def __call__(self, inputs: str | os.PathLike[str] | Iterable[Any], **options: Any) -> Any:
        """Results in the shapes of Hugging Face's pipelines; ``progress=True`` shows a bar of tqdm."""
        single = isinstance(inputs, (str, os.PathLike))
        texts = [os.fspath(inputs)] if isinstance(inputs, (str, os.PathLike)) else [os.fspath(each) for each in inputs]
        shown = bar() if options.pop("progress", False) else None
        whole = options.pop("return_full_text", True)
        if self.task == "feature-extraction" and not options:
            vectors = self._pipeline.embed(texts).numpy()
            return vectors[0] if single else vectors
        results = self._pipeline.run(texts, json.dumps(options), shown)
        if self.task == "text-generation" and whole:  # as Hugging Face's: with the prompt
            for text, samples in zip(texts, results):
                for sample in samples:
                    sample["generated_text"] = text + sample["generated_text"]
        return results[0] if single else results

    def stream(self, text: str, **options: Any) -> TextStream:
        """Text as it is generated, for ``for`` and ``async for``; closing stops the generation."""
        if self.task != "text-generation":
            raise ValueError(f"{self.task} does not stream")
        return TextStream(self._pipeline.stream(text, json.dumps(options)))

    def __reduce__(self) -> Any:
        return Pipeline, self._given

    def __repr__(self) -> str:
        return f"heed.pipeline({self.task!r}, {self._given[1]!r})"


def pipeline(task: str, model: PathLike) -> Pipeline:
    """A pipeline by Hugging Face's name of the task: text-generation, translation,
    text-classification, token-classification, fill-mask, feature-extraction, image-classification,
    image-to-text or automatic-speech-recognition.

    >>> import heed, tempfile
    >>> tokenizer = heed.Tokenizer.train(["abc "], "char", min_frequency=1)
    >>> config = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 16,
    ...           "vocab_size": tokenizer.vocab_size}
    >>> folder = tempfile.mkdtemp()
    >>> heed.create_model(config, seed=1, tokenizer=tokenizer).save(folder)
    >>> generate = pipeline("text-generation", folder)
    >>> [result] = generate("ab", max_new_tokens=3)
    >>> result["generated_text"].startswith("ab")
    True
    """
    return Pipeline(task, model)
