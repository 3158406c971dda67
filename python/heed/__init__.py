"""Transformers on the CPU: load, run, train and look inside attention models.

>>> import heed
>>> q = heed.eye(2)
>>> output, weights = heed.attention(q, q, q)
>>> weights.shape
(2, 2)
>>> x = heed.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2. 4.])
"""

from __future__ import annotations

import builtins
import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union, overload

from . import _heed, data, nn, notebook, optim
from ._heed import (
    AttentionKernel,
    AttentionPatterns,
    Error,
    Recorder as _Recorder,
    Tensor,
    Tokenizer,
    __version__,
    alibi_bias,
    alibi_slopes,
    arange,
    as_tensor,
    attention_by_kernel,
    attention_matrix_bytes,
    attention_patterns,
    bmm,
    cat,
    clamp,
    concat,
    cos,
    dtype,
    empty,
    exp,
    eye,
    flatten,
    from_dlpack,
    from_numpy,
    full,
    gather,
    get_num_threads,
    is_grad_enabled,
    log,
    log_softmax,
    manual_seed,
    masked_fill,
    matmul,
    maximum,
    mean,
    memory_in_use,
    minimum,
    ones,
    ones_like,
    peak_memory,
    pipeline_tasks,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    relu,
    reset_peak_memory,
    reshape,
    rotary,
    rsqrt,
    set_num_threads,
    sigmoid,
    sin,
    sinusoidal_positions,
    softmax,
    sort,
    split,
    sqrt,
    squeeze,
    stack,
    std,
    t5_bucket,
    tanh,
    tensor,
    topk,
    transpose,
    tril,
    triu,
    unsqueeze,
    validate_weights,
    var,
    where,
    zeros,
    zeros_like,
)
from ._heed import abs as abs
from ._heed import all as all
from ._heed import any as any
from ._heed import argmax, argmin, chunk
from ._heed import max as max
from ._heed import min as min
from ._heed import pow as pow
from ._heed import sum as sum
from .model import Model, ModelOutput, TextStream, create_model, load
from .notebook import AttentionView
from .pipelines import Pipeline, pipeline
from .retrieval import SearchIndex, build_index
from .server import Server, serve
from .training import Run, train

__all__ = [
    "AttentionKernel",
    "AttentionPatterns",
    "AttentionView",
    "Error",
    "Model",
    "ModelOutput",
    "Pipeline",
    "Recorder",
    "Run",
    "SearchIndex",
    "Server",
    "Tensor",
    "TextStream",
    "Tokenizer",
    "__version__",
    "abs",
    "alibi_bias",
    "alibi_slopes",
    "all",
    "allclose",
    "any",
    "arange",
    "argmax",
    "argmin",
    "as_tensor",
    "attention",
    "attention_by_kernel",
    "attention_matrix_bytes",
    "attention_patterns",
    "autocast",
    "bfloat16",
    "bmm",
    "bool",
    "build_index",
    "cat",
    "chunk",
    "clamp",
    "concat",
    "cos",
    "create_model",
    "data",
    "double",
    "dtype",
    "empty",
    "exp",
    "eye",
    "flatten",
    "float",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "gather",
    "get_num_threads",
    "half",
    "inf",
    "int",
    "int32",
    "int64",
    "is_grad_enabled",
    "load",
    "load_tensors",
    "log",
    "log_softmax",
    "long",
    "manual_seed",
    "masked_fill",
    "matmul",
    "max",
    "maximum",
    "mean",
    "memory_in_use",
    "min",
    "minimum",
    "multinomial",
    "nn",
    "no_grad",
    "notebook",
    "ones",
    "ones_like",
    "optim",
    "peak_memory",
    "pi",
    "pipeline",
    "pipeline_tasks",
    "pow",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "record",
    "relu",
    "reset_peak_memory",
    "reshape",
    "rotary",
    "rsqrt",
    "save",
    "serve",
    "set_num_threads",
    "sigmoid",
    "sin",
    "sinusoidal_positions",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "std",
    "sum",
    "t5_bucket",
    "tanh",
    "tensor",
    "topk",
    "train",
    "transpose",
    "tril",
    "triu",
    "uint8",
    "unsqueeze",
    "validate_weights",
    "var",
    "where",
    "zeros",
    "zeros_like",
]

PathLike = Union[str, "os.PathLike[str]"]

float32 = float = dtype.float32
float64 = double = dtype.float64
float16 = half = dtype.float16
bfloat16 = dtype.bfloat16
int64 = long = dtype.int64
int32 = int = dtype.int32
uint8 = dtype.uint8
bool = dtype.bool_
inf, pi = math.inf, math.pi


class no_grad(contextlib.ContextDecorator):
    """No history is recorded on this thread inside the block or the decorated function."""

    def __init__(self) -> None:
        self._scope = _heed._NoGrad()

    def _recreate_cm(self) -> no_grad:
        return no_grad()  # a decorated function may run in several threads: each call has its own scope

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *args: object) -> None:
        self._scope.__exit__()


class autocast(contextlib.ContextDecorator):
    """Activations in ``dtype`` (bfloat16 or float16) inside the block, weights and sums in f32.

    >>> import heed
    >>> with heed.autocast(heed.bfloat16):
    ...     y = heed.nn.TransformerBlock(16, 2)(heed.randn(1, 3, 16))
    """

    def __init__(self, dtype: dtype = dtype.bfloat16) -> None:
        self._dtype, self._scope = dtype, _heed._Precision(dtype)

    def _recreate_cm(self) -> autocast:
        return autocast(self._dtype)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *args: object) -> None:
        self._scope.__exit__()


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, *, causal: builtins.bool = ..., scale: builtins.float | None = ...
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, *, causal: builtins.bool = ..., scale: builtins.float | None = ...
) -> tuple[Any, Any]: ...
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: builtins.bool = False,
    scale: builtins.float | None = None,
) -> tuple[Any, Any]:
    """Scaled dot-product attention of [T, D], [B, T, D] or [B, H, T, D]: the output and the weights.

    A bool (or whole-numbered) ``mask`` is True where a query may attend to a key; a real one is
    added to the scores. Arrays come out as arrays, tensors as tensors, whose output has a gradient.

    >>> import numpy as np
    >>> q = np.eye(3, dtype=np.float32)
    >>> output, weights = attention(q, q, q, causal=True)
    >>> weights[0].tolist()
    [1.0, 0.0, 0.0]
    """
    arrays = not isinstance(q, Tensor)
    allowed = None if mask is None else as_tensor(mask)
    output, weights = _heed.attention(_real(q), _real(k), _real(v), allowed, causal, scale)
    return (output.numpy(), weights.numpy()) if arrays else (output, weights)


def _real(x: Any) -> Tensor:
    made = as_tensor(x)
    return made if isinstance(x, Tensor) or made.dtype == dtype.float32 else made.float()


class Recorder(_Recorder):
    """What models computed inside a ``with`` block: attention and activations by hook name."""

    tokens: Sequence[str] = ()

    def __enter__(self) -> Recorder:
        super().__enter__()
        return self

    def view(self, tokens: Sequence[str] = (), columns: Sequence[str] | None = None, sequence: builtins.int = 0) -> AttentionView:
        """An interactive picture of every recorded head."""
        maps = [
            (each.kind, each.layer, head, each.weights(sequence, head))
            for each in self.attentions
            for head in range(each.heads)
        ]
        return AttentionView(maps, tokens or self.tokens, columns)

    def show(self, tokens: Sequence[str] = ()) -> None:
        """The picture in a notebook, or in the browser."""
        self.view(tokens).show()

    def _repr_html_(self) -> str:
        return self.view()._repr_html_() if self.attentions else "<em>nothing recorded</em>"


def record(
    activations: Sequence[str] = ("*",),
    *,
    no_causal: builtins.bool = False,
    ablate: Sequence[tuple[builtins.int, builtins.int]] = (),
) -> Recorder:
    """Keep what models compute inside a ``with`` block.

    ``activations`` are hook names to keep ("*" stands for anything), ``ablate`` heads to silence as
    (layer, head), ``no_causal`` lets queries see later keys.

    >>> import heed
    >>> block = heed.nn.TransformerBlock(8, 2)
    >>> with heed.record() as r:
    ...     y = block(heed.randn(1, 3, 8))
    >>> r.attention(layer=0, head=1).shape
    (3, 3)
    """
    return Recorder(list(activations), no_causal, list(ablate))


def save(tensors: Mapping[str, Tensor] | nn.Module, path: PathLike) -> None:
    """Writes tensors by name, or a module's state, as .safetensors."""
    state = tensors.state_dict() if isinstance(tensors, nn.Module) else tensors
    _heed.save_file({name: each.detach() for name, each in state.items()}, path)


def load_tensors(path: PathLike) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, mapped: nothing is read before its first use."""
    return _heed.load_file(path)


def multinomial(input: Tensor, num_samples: builtins.int) -> Tensor:
    """Indices drawn with the probabilities of each row, without replacement."""
    # The largest of log p + Gumbel noise is a draw from p; the k largest are k draws without replacement.
    noise = -log(-log(rand(*input.shape).clamp(1e-20, None)))
    return topk(log(input) + noise, num_samples).indices


def allclose(a: Tensor, b: Tensor, rtol: builtins.float = 1e-5, atol: builtins.float = 1e-8) -> builtins.bool:
    """Whether two tensors agree but for rounding."""
    return all(abs(a - b) <= abs(b) * rtol + atol)


# How tensors and tokenizers come back from a pickle.
def _restore_tensor(array: Any, dtype: dtype, requires_grad: builtins.bool) -> Tensor:
    return tensor(array, dtype, requires_grad)


def _load_tokenizer(path: str) -> Tokenizer:
    return Tokenizer.load(path)
