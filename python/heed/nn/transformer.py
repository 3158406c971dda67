"""Attention layers and Transformers. Their parameters have PyTorch's names."""

from __future__ import annotations

import copy
from typing import Any

from .. import _heed
from .._heed import Tensor
from .layers import LayerNorm
from .module import Layer, Module, ModuleList


class MultiHeadAttention(Layer):
    """Multi-head attention on [B, T, d_model] as the tutorials write it.

    A bool ``mask`` is True where a query may attend to a key, and is broadcast to
    [B, heads, Tq, Tk]. ``mha(x)`` is self-attention; ``mha(q, k, v, mask)`` the general form.

    >>> import heed
    >>> mha = MultiHeadAttention(d_model=8, n_heads=2)
    >>> y, weights = mha(heed.randn(1, 3, 8), need_weights=True)
    >>> weights.shape
    (1, 2, 3, 3)
    """

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, bias: bool = True, causal: bool = False
    ) -> None:
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        object.__setattr__(
            self, "_arguments", dict(d_model=d_model, n_heads=n_heads, dropout=dropout, bias=bias, causal=causal)
        )
        self._adopt(_heed.MultiHeadAttention(d_model, n_heads, dropout, bias, causal))

    def _fresh(self) -> MultiHeadAttention:
        return MultiHeadAttention(**self._arguments)

    def forward(
        self,
        q: Tensor,
        k: Tensor | None = None,
        v: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        key_padding: Tensor | None = None,
        need_weights: bool = False,
    ) -> Any:
        k = q if k is None else k
        v = k if v is None else v
        mask = None if mask is None else _attend(mask)
        output, weights = self._layer(q, k, v, mask, key_padding, self.training, need_weights)
        return (output, weights) if need_weights else output

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, n_heads={self.n_heads}"


class HeadList(Layer):
    """Multi-head attention as a list of single heads; ``fused()`` computes it in one product."""

    def __init__(self, d_model: int, n_heads: int, causal: bool = False) -> None:
        super().__init__()
        object.__setattr__(self, "_arguments", dict(d_model=d_model, n_heads=n_heads, causal=causal))
        self._adopt(_heed.HeadList(d_model, n_heads, causal))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self._layer(x)
        return result

    def fused(self) -> MultiHeadAttention:
        """The same weights side by side: gradients arrive in this list's parameters."""
        layer = MultiHeadAttention(self._arguments["d_model"], self._arguments["n_heads"])
        for group in (layer._modules, layer._parameters):
            group.clear()
        layer._adopt(self._layer.fused())
        return layer


class BahdanauAttention(Layer):
    """Attention of 2015: ``query`` [B, Tq, Dq] over ``memory`` [B, Tk, Dk] gives [B, Tq, Dk].

    ``kind`` is additive (Bahdanau), dot, general or concat (Luong).
    """

    def __init__(self, query_size: int, key_size: int, hidden_size: int, kind: str = "additive") -> None:
        super().__init__()
        object.__setattr__(
            self, "_arguments", dict(query_size=query_size, key_size=key_size, hidden_size=hidden_size, kind=kind)
        )
        self._adopt(_heed.ScoredAttention(_heed.ScoreKind[kind], query_size, key_size, hidden_size))

    def forward(self, query: Tensor, memory: Tensor, key_padding: Tensor | None = None) -> Tensor:
        result: Tensor = self._layer(query, memory, key_padding)
        return result


class TransformerBlock(Layer):
    """Self-attention and a feed-forward network on [B, T, d_model], each with residual and norm.

    With ``cross_attention`` it also attends to ``encoder_hidden_states``.

    >>> import heed
    >>> block = TransformerBlock(d_model=16, n_heads=4, causal=True)
    >>> block(heed.randn(2, 5, 16)).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        dropout: float = 0.0,
        *,
        activation: str = "gelu",
        norm_first: bool = True,
        causal: bool = False,
        cross_attention: bool = False,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        arguments: dict[str, Any] = dict(
            d_model=d_model,
            n_heads=n_heads,
            d_ff=d_ff or 4 * d_model,
            dropout=dropout,
            activation=activation,
            norm_first=norm_first,
            causal=causal,
            cross_attention=cross_attention,
            norm_eps=norm_eps,
        )
        object.__setattr__(self, "_arguments", arguments)
        self._adopt(_heed.TransformerBlock(*arguments.values()))

    def _fresh(self) -> TransformerBlock:
        return TransformerBlock(**self._arguments)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        key_padding: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_padding: Tensor | None = None,
    ) -> Tensor:
        result: Tensor = self._layer(x, mask, key_padding, encoder_hidden_states, encoder_padding, self.training)
        return result

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, n_heads={self.n_heads}"


# PyTorch's own layers: a bool mask is True where a query may NOT attend to a key --------------------


def _attend(mask: Tensor) -> Tensor:
    return mask if mask.dtype in (_heed.dtype.bool_, _heed.dtype.uint8) or _is_real(mask) else mask != 0


def _is_real(mask: Tensor) -> bool:
    return mask.dtype in (_heed.dtype.float32, _heed.dtype.float64, _heed.dtype.float16, _heed.dtype.bfloat16)


def _allowed(mask: Tensor | None) -> Tensor | None:
    """PyTorch's mask as heed's: a bool one means the opposite, a real one is added in both."""
    return mask if mask is None or _is_real(mask) else ~mask.bool()


def _real_keys(padding: Tensor | None) -> Tensor | None:
    if padding is None:
        return None
    return padding == 0 if _is_real(padding) else ~padding.bool()


class MultiheadAttention(Layer):
    """``torch.nn.MultiheadAttention``: returns the output and the weights (their mean over heads)."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.batch_first = batch_first
        object.__setattr__(
            self,
            "_arguments",
            dict(embed_dim=embed_dim, num_heads=num_heads, dropout=dropout, bias=bias, batch_first=batch_first),
        )
        self._adopt(_heed.MultiHeadAttention(embed_dim, num_heads, dropout, bias, False))

    def _fresh(self) -> MultiheadAttention:
        return MultiheadAttention(**self._arguments)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        mask = _allowed(attn_mask)
        if mask is not None and _is_real(mask):
            if not _is_blocking(mask):
                raise NotImplementedError("attn_mask of numbers other than 0 and -inf is not supported")
            mask = mask == 0
        output, weights = self._layer(
            query, key, value, mask, _real_keys(key_padding_mask), self.training, need_weights
        )
        output = output if self.batch_first else output.transpose(0, 1)
        if not need_weights:
            return output, None
        return output, weights.mean(1) if average_attn_weights else weights


def _is_blocking(mask: Tensor) -> bool:
    """Whether a real mask holds nothing but 0 and -inf."""
    return ((mask == 0) | (mask == -float("inf"))).all()


class TransformerEncoderLayer(TransformerBlock):
    """``torch.nn.TransformerEncoderLayer``, with its arguments and defaults."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation=activation,
            norm_first=norm_first,
            norm_eps=layer_norm_eps,
            cross_attention=self._cross,
        )
        self.batch_first = batch_first
        arguments = dict(
            d_model=d_model,
            nhead=nhead,
            dim_feedforward=dim_feedforward,
            dropout=dropout,
            activation=activation,
            layer_norm_eps=layer_norm_eps,
            batch_first=batch_first,
            norm_first=norm_first,
        )
        object.__setattr__(self, "_arguments", arguments)

    _cross = False

    def _fresh(self) -> TransformerEncoderLayer:
        return type(self)(**self._arguments)

    def _swap(self, x: Tensor) -> Tensor:
        return x if self.batch_first else x.transpose(0, 1)

    def forward(  # type: ignore[override]
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        return self._swap(
            self._layer(
                self._swap(src), _allowed(src_mask), _real_keys(src_key_padding_mask), None, None, self.training
            )
        )


class TransformerDecoderLayer(TransformerEncoderLayer):
    """``torch.nn.TransformerDecoderLayer``."""

    _cross = True

    def forward(  # type: ignore[override]
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        if memory_mask is not None:
            raise NotImplementedError("memory_mask is not supported; use memory_key_padding_mask")
        return self._swap(
            self._layer(
                self._swap(tgt),
                _allowed(tgt_mask),
                _real_keys(tgt_key_padding_mask),
                self._swap(memory),
                _real_keys(memory_key_padding_mask),
                self.training,
            )
        )


class _Stack(Module):
    layers: ModuleList
    norm: Module | None

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm


class TransformerEncoder(_Stack):
    """``num_layers`` copies of a layer, one after the other."""

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """``num_layers`` copies of a decoder layer, one after the other."""

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """``torch.nn.Transformer``: an encoder and a decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        batch_first: bool = False,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = dict(batch_first=batch_first, norm_first=norm_first)
        encoder = TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout, activation, **options)
        decoder = TransformerDecoderLayer(d_model, nhead, dim_feedforward, dropout, activation, **options)
        self.encoder = TransformerEncoder(encoder, num_encoder_layers, LayerNorm(d_model))
        self.decoder = TransformerDecoder(decoder, num_decoder_layers, LayerNorm(d_model))

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        with _heed.HookScope("encoder", -1):
            memory = self.encoder(src, src_mask, src_key_padding_mask)
        with _heed.HookScope("decoder", -1):
            result: Tensor = self.decoder(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
            )
        return result

    @staticmethod
    def generate_square_subsequent_mask(size: int) -> Tensor:
        """-inf above the diagonal, 0 elsewhere: to be added to the scores."""
        return _heed.triu(_heed.full([size, size], -float("inf")), 1)
