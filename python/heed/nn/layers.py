"""Layers of one op each."""

from __future__ import annotations

import math

from .. import _heed
from .._heed import Tensor
from .module import Module, Parameter


def _fresh(*shape: int, kind: str = "uniform", value: float = 0.0) -> Parameter:
    return Parameter._of(_heed.fresh_parameter(list(shape), kind, value))


class Linear(Module):
    """``x @ weight.T + bias``, started as PyTorch starts it."""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = _fresh(out_features, in_features, value=bound)
        self.bias = _fresh(out_features, value=bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return _heed.linear(x, self.weight, self.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return _heed.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows of a table by id; standard normal at the start."""

    weight: Parameter

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = _fresh(num_embeddings, embedding_dim, kind="normal", value=1.0)

    def forward(self, ids: Tensor) -> Tensor:
        return _heed.embedding(ids, self.weight)

    def __call__(self, ids: Tensor) -> Tensor:
        return _heed.embedding(ids, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """Over the last axis."""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, normalized_shape: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = _fresh(normalized_shape, kind="constant", value=1.0)
        self.bias = _fresh(normalized_shape, kind="constant") if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return _heed.layer_norm(x, self.weight, self.bias, self.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return _heed.layer_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.size(0)}"


class RMSNorm(Module):
    weight: Parameter

    def __init__(self, normalized_shape: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = _fresh(normalized_shape, kind="constant", value=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return _heed.rms_norm(x, self.weight, self.eps)


class Dropout(Module):
    """Zeroes elements with probability ``p`` while training."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return _heed.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Identity(Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Module):
    def forward(self, x: Tensor) -> Tensor:
        return _heed.relu(x)


class GELU(Module):
    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return _heed.gelu(x, self.approximate)


class SiLU(Module):
    def forward(self, x: Tensor) -> Tensor:
        return _heed.silu(x)


class Tanh(Module):
    def forward(self, x: Tensor) -> Tensor:
        return _heed.tanh(x)


class Sigmoid(Module):
    def forward(self, x: Tensor) -> Tensor:
        return _heed.sigmoid(x)


class Softmax(Module):
    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return _heed.softmax(x, self.dim)


class Flatten(Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


class _Cell(Module):
    def __init__(self, input_size: int, hidden_size: int, gates: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden_size)
        self.hidden_size = hidden_size
        self.weight_ih = _fresh(gates * hidden_size, input_size, value=bound)
        self.weight_hh = _fresh(gates * hidden_size, hidden_size, value=bound)
        self.bias_ih = _fresh(gates * hidden_size, value=bound)
        self.bias_hh = _fresh(gates * hidden_size, value=bound)


class LSTMCell(_Cell):
    """One step of an LSTM: (h, c) from x and (h, c)."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, 4)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = state or (_heed.zeros(x.size(0), self.hidden_size), _heed.zeros(x.size(0), self.hidden_size))
        return _heed.lstm_cell(x, h, c, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class GRUCell(_Cell):
    """One step of a GRU: h from x and h."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, 3)

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        h = _heed.zeros(x.size(0), self.hidden_size) if h is None else h
        return _heed.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class CrossEntropyLoss(Module):
    """Mean over the targets that count."""

    def __init__(self, ignore_index: int = -100, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return _heed.cross_entropy(logits, target, self.ignore_index, self.label_smoothing)


class MSELoss(Module):
    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        return _heed.mse_loss(prediction, target)
