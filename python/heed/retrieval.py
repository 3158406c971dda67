"""Search in documents, and answers from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Union

from . import _heed
from ._heed import as_tensor
from .model import Model, load
from .progress import bar

__all__ = ["SearchIndex", "build_index"]

PathLike = Union[str, "os.PathLike[str]"]


class SearchIndex:
    """An index that ``heed index`` or :func:`build_index` made, open for searching.

    Several threads may use one; they search one after another. ``model`` is the encoder where it has
    moved, ``query_model`` another encoder for questions (DPR), ``reranker`` a cross-encoder that orders
    what was found.
    """

    def __init__(
        self, path: PathLike, *, model: PathLike = "", query_model: PathLike = "", reranker: PathLike = ""
    ) -> None:
        self._given = os.fspath(path), os.fspath(model), os.fspath(query_model), os.fspath(reranker)
        self._index = _heed.SearchIndex(*self._given)

    @property
    def info(self) -> dict[str, Any]:
        """Encoder, type and size of the vectors, number of files and chunks."""
        return self._index.info

    def __len__(self) -> int:
        chunks: int = self._index.info["chunks"]
        return chunks

    def search(
        self, query: str | Any, top_k: int = 10, mode: str = "hybrid", hnsw: bool = False
    ) -> list[dict[str, Any]]:
        """The best passages for a question, best first: rank, score, source, location, title, text,
        snippet and matches.

        ``mode`` is "dense" (by meaning), "lexical" (by words, BM25) or "hybrid" (both, by reciprocal
        rank fusion). A vector instead of a text is compared with the passages' vectors.
        """
        if isinstance(query, str):
            return self._index.search(query, mode, top_k, hnsw)
        return self._index.search_vector(as_tensor(query), top_k)

    def ask(
        self,
        question: str,
        model: Model | PathLike,
        *,
        reader: str = "prompt",
        top_k: int = 5,
        mode: str = "hybrid",
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        seed: int = 0,
        attention: bool = False,
        on_text: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Answers a question from the passages that a search finds: ``answer`` and numbered ``sources``.

        ``reader`` "prompt" puts all passages into one prompt of any language model (with its chat
        template, where it has one); "fid" reads each by itself with a FiD reader; "rag" takes a model of
        type rag, and an index of its DPR vectors. ``attention=True`` says how much attention the answer
        paid to each source (with "rag", its probability). ``on_text`` is called with the answer as it is
        written.
        """
        opened = model if isinstance(model, Model) else load(model)
        return self._index.ask(
            question, opened._model, reader, mode, top_k, max_new_tokens, temperature, seed, attention, on_text
        )

    def __reduce__(self) -> Any:
        return _open, self._given

    def __repr__(self) -> str:
        return f"heed.SearchIndex({self._given[0]!r}, {len(self)} passages)"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><td>{name}</td><td>{escape(str(value))}</td></tr>" for name, value in self.info.items())
        return f"<table>{rows}</table>"


def _open(path: str, model: str, query_model: str, reranker: str) -> SearchIndex:
    return SearchIndex(path, model=model, query_model=query_model, reranker=reranker)


def build_index(
    docs: PathLike | Sequence[PathLike],
    out: PathLike,
    model: PathLike = "",
    *,
    chunk_tokens: int | None = None,
    overlap_tokens: int | None = None,
    vector_type: str | None = None,
    pooling: str | None = None,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    hnsw: bool | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Makes an index of documents, or brings it up to date: only passages that are new are embedded.

    ``docs`` are files and folders: text, Markdown, HTML, JSON lines, CSV, TSV, and PDF where pdftotext is
    installed. ``model`` is the encoder; an index that exists knows its own. Returns what was done; files
    that could not be read are named in ``failed``. Ctrl-C keeps what is done, and the same call goes on.

    >>> import heed, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "notes.txt").write_text("Cats sleep. Dogs bark. Heads are combined by a projection.")
    >>> tokenizer = heed.Tokenizer.train([(folder / "notes.txt").read_text()], "wordpiece:60", min_frequency=1)
    >>> config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_hidden_layers": 1,
    ...           "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 64,
    ...           "vocab_size": tokenizer.vocab_size}
    >>> heed.create_model(config, seed=1, tokenizer=tokenizer).save(folder / "encoder")
    >>> report = build_index(folder / "notes.txt", folder / "notes.heed-index", folder / "encoder")
    >>> report["files"], report["chunks"]
    (1, 1)
    >>> SearchIndex(folder / "notes.heed-index").search("projection", mode="lexical")[0]["matches"]
    ['projection']
    """
    paths = [docs] if isinstance(docs, (str, os.PathLike)) else list(docs)
    return _heed.build_index(
        [os.fspath(path) for path in paths], out, os.fspath(model), chunk_tokens, overlap_tokens, vector_type, pooling,
        query_prefix, passage_prefix, hnsw, bar("B", scale=True) if progress else None,
    )

