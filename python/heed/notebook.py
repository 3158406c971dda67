"""What notebooks show: interactive pages inside the output, without network."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _heed
from ._heed import Tensor

if TYPE_CHECKING:
    from .nn.module import Module

__all__ = ["AttentionView", "Page", "Svg", "heatmap", "plot", "show_tokens"]

PathLike = Union[str, "os.PathLike[str]"]


def _language() -> str:
    language = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "ko" if language.startswith("ko") else "en"


class Page:
    """A whole HTML page. A notebook shows it in a frame of its own."""

    def __init__(self, source: str, height: int = 520) -> None:
        self.source, self.height = source, height

    def _repr_html_(self) -> str:
        # srcdoc keeps the page's scripts and styles apart from the notebook's, and needs no server.
        return (
            f'<iframe srcdoc="{html.escape(self.source)}" style="width:100%;height:{self.height}px;border:0"'
            ' sandbox="allow-scripts allow-same-origin allow-downloads" loading="eager"></iframe>'
        )

    def save(self, path: PathLike) -> None:
        """Writes the page as one file that opens in any browser."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)

    def show(self) -> None:
        """In a notebook: the page; elsewhere: the browser."""
        _show(self)

    def __repr__(self) -> str:
        return f"<heed page, {len(self.source) // 1024} KiB: show it in a notebook, or save(path)>"


class Svg:
    """A picture."""

    def __init__(self, source: str) -> None:
        self.source = source

    def _repr_svg_(self) -> str:
        return self.source

    def save(self, path: PathLike) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)


def _in_notebook() -> bool:
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _show(page: Page) -> None:
    if _in_notebook():
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

        display(page)  # type: ignore[no-untyped-call, unused-ignore]
        return
    import tempfile
    import webbrowser

    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False, encoding="utf-8") as file:
        file.write(page.source)
    if not webbrowser.open(f"file://{file.name}"):
        print(file.name)


class AttentionView:
    """Weights with the tokens they belong to; an interactive picture in a notebook.

    ``maps`` are (kind, layer, head, weights [Tq, Tk]).
    """

    def __init__(
        self,
        maps: Sequence[tuple[str, int, int, Any]],
        rows: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        title: str = "",
    ) -> None:
        self.maps = [(kind, layer, head, _heed.as_tensor(weights)) for kind, layer, head, weights in maps]
        self.rows, self.columns, self.title = list(rows), list(rows if columns is None else columns), title

    def page(self, language: str | None = None) -> Page:
        """One HTML page with selectors for layer and head and values under the mouse."""
        groups: dict[str, list[tuple[int, int, Tensor]]] = {}
        for kind, layer, head, weights in self.maps:
            groups.setdefault(kind, []).append((layer, head, weights))
        made = []
        for kind, each in groups.items():
            rows, columns = each[0][2].shape
            made.append((kind, _labels(self.rows, rows), _labels(self.columns, columns), each))
        return Page(_heed.attention_page(made, self.title, language or _language()))

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()

    def show(self) -> None:
        """In a notebook: the interactive picture; elsewhere: the browser."""
        self.page().show()

    def save(self, path: PathLike) -> None:
        self.page().save(path)

    def __repr__(self) -> str:
        return f"<attention of {len(self.maps)} heads: show(), or save(path)>"


def _labels(names: Sequence[str], count: int) -> list[str]:
    return list(names) if len(names) == count else [str(i) for i in range(count)]


def heatmap(
    values: Any,
    rows: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    title: str = "",
    row_title: str = "Query",
    column_title: str = "Key",
) -> Svg:
    """A heat map of [rows, columns], or one panel for each of [panels, rows, columns]; a dictionary
    names the panels.

    >>> heatmap([[1.0, 0.0], [0.5, 0.5]], ["a", "b"]).source.startswith("<svg")
    True
    """
    if isinstance(values, dict):
        panels = [(name, _heed.as_tensor(each)) for name, each in values.items()]
    else:
        tensor = _heed.as_tensor(values)
        panels = [("", tensor)] if tensor.ndim == 2 else [(f"Head {i}", each) for i, each in enumerate(tensor)]
    labels = list(rows), list(rows if columns is None else columns)
    return Svg(_heed.Heatmap(panels, *labels, title, row_title, column_title, _language()).svg())


def plot(
    series: dict[str, Any],
    title: str = "",
    x_title: str = "Step",
    y_title: str = "Loss",
    log_x: bool = False,
    log_y: bool = False,
) -> Svg:
    """Curves: a list of values, or a pair of lists x and y, for each name.

    >>> "loss" in plot({"loss": [3.0, 2.0, 1.5], "validation": ([1, 3], [2.5, 2.0])}).source
    True
    """
    made = []
    for name, values in series.items():
        x, y = values if isinstance(values, tuple) else (range(1, len(values) + 1), values)
        made.append((name, [float(v) for v in x], [float(v) for v in y]))
    return Svg(_heed.line_plot_svg(made, title, x_title, y_title, log_x, log_y))


_STYLE = (
    "<style>.heed-tokens span{display:inline-block;margin:1px;padding:2px 4px;border-radius:3px;background:#8882;"
    "font-family:monospace;cursor:default}.heed-tokens span:hover{outline:2px solid #06c}"
    ".heed-tokens small{display:block;opacity:.6}</style>"
)


class _Tokens:
    def __init__(self, tokens: Sequence[str], ids: Sequence[int]) -> None:
        self.tokens, self.ids = list(tokens), list(ids)

    def _repr_html_(self) -> str:
        spans = "".join(
            f'<span title="{i}: {html.escape(token)} = {id}">{html.escape(token)}<small>{id}</small></span>'
            for i, (token, id) in enumerate(zip(self.tokens, self.ids))
        )
        return f'{_STYLE}<div class="heed-tokens">{spans}</div>'

    def __repr__(self) -> str:
        return " ".join(self.tokens)


def show_tokens(tokenizer: _heed.Tokenizer, text: str) -> _Tokens:
    """The tokens of a text, each with its id; position and id under the mouse.

    >>> import heed
    >>> show_tokens(heed.Tokenizer.train(["ab"], "char", min_frequency=1), "abba")
    a b b a
    """
    return _Tokens(tokenizer.labels(text), tokenizer.encode(text))


def module_html(module: Module) -> str:
    """The parts of a model as a tree that opens and closes, with shapes and numbers of parameters."""

    def count(part: Module) -> int:
        return sum(tensor.numel() for tensor in part.parameters())

    def tree(name: str, part: Module, level: int) -> str:
        rows = "".join(
            f"<li><code>{html.escape(each)}</code> {list(tensor.shape)}</li>"
            for each, tensor in part._parameters.items()
        )
        inner = "".join(f"<li>{tree(each, child, level + 1)}</li>" for each, child in part._modules.items())
        label = f"<b>{html.escape(name)}</b> " if name else ""
        extra = html.escape(part.extra_repr())
        head = f"{label}{html.escape(type(part).__name__)}({extra}) · {count(part):,}"
        if not rows and not inner:
            return head
        state = " open" if level < 1 else ""
        return f"<details{state}><summary>{head}</summary><ul>{rows}{inner}</ul></details>"

    return f'<div class="heed-module">{tree("", module, 0)}</div>'
