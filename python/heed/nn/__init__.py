"""Layers with PyTorch's names and call signatures, computed by the library.

>>> import heed
>>> from heed import nn
>>> layer = nn.MultiHeadAttention(d_model=16, n_heads=4)
>>> layer(heed.randn(2, 5, 16)).shape
(2, 5, 16)
"""

from __future__ import annotations

from . import functional, init
from .layers import (
    GELU,
    Dropout,
    CrossEntropyLoss,
    Embedding,
    Flatten,
    GRUCell,
    Identity,
    LayerNorm,
    Linear,
    LSTMCell,
    MSELoss,
    ReLU,
    RMSNorm,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from .module import Module, ModuleDict, ModuleList, Parameter, Sequential
from .transformer import (
    BahdanauAttention,
    HeadList,
    MultiheadAttention,
    MultiHeadAttention,
    Transformer,
    TransformerBlock,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from . import utils

__all__ = [
    "BahdanauAttention",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GELU",
    "GRUCell",
    "HeadList",
    "Identity",
    "LSTMCell",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "MultiheadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "Transformer",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "functional",
    "init",
    "utils",
]
