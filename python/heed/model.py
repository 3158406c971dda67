"""Models by path: loading, running, generating, saving."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, Union

from . import _heed
from ._heed import Tensor, Tokenizer
from .nn.module import Module, Parameter

__all__ = ["Model", "ModelOutput", "TextStream", "create_model", "load"]

PathLike = Union[str, "os.PathLike[str]"]


class ModelOutput(dict[str, Tensor]):
    """Results by Hugging Face's names, also as attributes; what a model does not have is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


class TextStream:
    """Text as it is generated. Nothing is computed ahead: who stops reading stops the generation.

    Works in ``for`` and in ``async for``. ``close()`` ends it; ``result`` has ids and probabilities.
    """

    def __init__(self, stream: _heed.TextGenerationStream) -> None:
        self._stream: _heed.TextGenerationStream | None = stream
        self._lock = threading.Lock()  # threads that read one stream take turns
        self.result: dict[str, Any] = {}

    def _next(self) -> str | None:
        with self._lock:
            stream = self._stream
            if stream is None:
                return None
            piece = stream.next()
            self.result = stream.result()
            if piece is None:
                self.close()
            return piece

    def close(self) -> None:
        """Ends the generation and frees its memory."""
        self._stream = None

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if (piece := self._next()) is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        import asyncio

        if (piece := await asyncio.to_thread(self._next)) is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self.close()


class Model(Module):
    """A model and its tokenizer; made by :func:`heed.load` or :func:`heed.create_model`."""

    tokenizer: Tokenizer

    def __init__(self, model: _heed.Model, source: str | None = None, trainable: bool = False) -> None:
        super().__init__()
        object.__setattr__(self, "_model", model)
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_trainable", trainable)
        for name, tensor in model.parameters():
            self._parameters[name] = Parameter._of(tensor)
        object.__setattr__(self, "tokenizer", model.tokenizer)
        self.train(trainable)

    def forward(self, input_ids: Any = None, **inputs: Any) -> ModelOutput:
        """A pass with inputs by Hugging Face's names: lists, arrays or tensors. ``labels`` adds the loss;
        with ``want_logits=False`` only the loss is computed. ``passages=n``: every n rows of ``input_ids``
        are encoded by themselves and read together by the decoder (Fusion-in-Decoder)."""
        want_logits = inputs.pop("want_logits", True)
        if input_ids is not None:
            inputs["input_ids"] = input_ids
        grad = self._trainable and _heed.is_grad_enabled()
        return ModelOutput(self._model.run(inputs, self.training, want_logits, grad))

    @property
    def config(self) -> dict[str, Any]:
        """config.json."""
        config: dict[str, Any] = json.loads(self._model.config)
        return config

    def __getattr__(self, name: str) -> Any:
        own = ("model_type", "num_parameters", "num_layers", "num_heads", "hidden_size", "vocab_size")
        if name in own or name in ("context_length", "path"):
            return getattr(self.__dict__["_model"], name)
        return super().__getattr__(name)

    def generate(self, prompt: str, **options: Any) -> TextStream:
        """Continues a text, piece by piece; options by Hugging Face's names (max_new_tokens,
        temperature, top_k, top_p, seed, stop_strings, …)."""
        return TextStream(self._pipeline().stream(prompt, json.dumps(options)))

    def _pipeline(self) -> _heed.Pipeline:
        if "_generation" not in self.__dict__:
            object.__setattr__(self, "_generation", self._model.generation())
        pipeline: _heed.Pipeline = self.__dict__["_generation"]
        return pipeline

    def gradient_checkpointing(self, on: bool = True) -> Model:
        """Stores only the inputs of blocks; backward() recomputes the rest."""
        self._model.set_gradient_checkpointing(on)
        return self

    def save(self, path: PathLike, dtype: _heed.dtype = _heed.dtype.float32) -> None:
        """Writes a Hugging Face folder: config.json, model.safetensors and the tokenizer."""
        self._model.save(path, dtype)

    def explore(self, text: str, language: str = "en") -> Any:
        """The explorer page about one text, to be shown in a notebook or saved as one HTML file."""
        from .notebook import Page

        return Page(self._model.explorer_page(text, language, 24 << 20), height=720)

    def __repr__(self) -> str:
        return f"heed.Model({self.model_type}, {self.num_parameters} parameters)"

    def __reduce__(self) -> Any:
        if self._source is None:
            raise TypeError("a model pickles by its path; save() it and load() the folder first")
        return load, (self._source, self._trainable)


def load(path: PathLike, trainable: bool = False, tokenizer: PathLike | None = None) -> Model:
    """Open a model folder, a run folder, a .gguf file or a name of the local Hugging Face cache.

    Weights are mapped, not read: opening takes milliseconds. ``trainable`` copies them to f32 with
    gradients. A folder without a tokenizer is opened without one.
    """
    return Model(_heed.open_model(path, trainable, tokenizer), os.fspath(path), trainable)


def create_model(config: dict[str, Any], seed: int | None = None, tokenizer: Tokenizer | None = None) -> Model:
    """A model with fresh parameters from what would be its config.json.

    >>> import heed
    >>> model = heed.create_model({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2,
    ...                            "n_positions": 8, "vocab_size": 10}, seed=1)
    >>> model(input_ids=[[1, 2, 3]]).logits.shape
    (1, 3, 10)
    """
    return Model(_heed.create_model(json.dumps(config), seed, tokenizer), None, trainable=True)
