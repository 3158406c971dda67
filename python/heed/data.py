"""Datasets, batches and small synthetic sets.

>>> from heed import data
>>> data.synthetic("reverse", 1)[0].keys()
dict_keys(['source', 'target'])
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, Union

from . import _heed
from ._heed import Tensor, Tokenizer

__all__ = [
    "DataLoader",
    "Dataset",
    "Loader",
    "TensorDataset",
    "caption_loader",
    "class_loader",
    "lm_loader",
    "pair_loader",
    "random_split",
    "shapes",
    "synthetic",
    "synthetic_sets",
    "write_synthetic",
]

PathLike = Union[str, "os.PathLike[str]"]
Item = TypeVar("Item", covariant=True)


class Dataset(Protocol[Item]):
    """Examples by index."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Item: ...


class TensorDataset:
    """Rows of several tensors."""

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def __getitem__(self, index: int, /) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)


class _Part(Generic[Item]):
    def __init__(self, dataset: Dataset[Item], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Item:
        return self.dataset[self.indices[index]]


def _order(count: int) -> list[int]:
    order: list[int] = _heed.rand(count).sort().indices.tolist()
    return order


def random_split(dataset: Dataset[Item], lengths: Sequence[int]) -> list[_Part[Item]]:
    """Parts of a dataset without overlap, by the random state of ``manual_seed()``."""
    order, parts = _order(len(dataset)), []
    for length in lengths:
        parts.append(_Part(dataset, order[:length]))
        order = order[length:]
    return parts


def _collate(items: Sequence[Any]) -> Any:
    first = items[0]
    if isinstance(first, Tensor):
        return _heed.stack(list(items))
    if isinstance(first, tuple):
        return tuple(_collate([item[i] for item in items]) for i in range(len(first)))
    if isinstance(first, dict):
        return {name: _collate([item[name] for item in items]) for name in first}
    return list(items) if isinstance(first, str) else _heed.tensor(list(items))


class DataLoader:
    """Batches of a dataset, shuffled by the random state of ``manual_seed()`` where asked.

    >>> import heed
    >>> rows = TensorDataset(heed.arange(5))
    >>> [batch[0].tolist() for batch in DataLoader(rows, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Any = _collate,
    ) -> None:
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.drop_last, self.collate_fn = drop_last, collate_fn

    def __len__(self) -> int:
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order = _order(len(self.dataset)) if self.shuffle else range(len(self.dataset))
        for i in range(len(self)):
            rows = order[i * self.batch_size : (i + 1) * self.batch_size]
            if isinstance(self.dataset, TensorDataset) and self.collate_fn is _collate:
                yield tuple(tensor[list(rows)] for tensor in self.dataset.tensors)
            else:
                yield self.collate_fn([self.dataset[index] for index in rows])


class Loader:
    """The library's batches: what a batch holds depends on the data, the seed and the step alone.

    Endless where shuffled, else once through. Batches are dictionaries of tensors by the names of a
    model's inputs.
    """

    def __init__(self, loader: _heed.Loader, shuffle: bool) -> None:
        self._loader, self._shuffle = loader, shuffle
        self._lock = threading.Lock()

    @property
    def steps_per_epoch(self) -> int:
        return self._loader.steps_per_epoch

    @property
    def examples(self) -> int:
        return self._loader.examples

    def batch(self, step: int) -> dict[str, Tensor]:
        """The batch of a step."""
        return self._loader.batch(step)

    def next(self) -> dict[str, Tensor]:
        """The next batch; threads that ask at once get one each."""
        with self._lock:
            return self._loader.next()

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        step = 0
        while self._shuffle or step < self.steps_per_epoch:
            yield self._loader.batch(step)
            step += 1


def lm_loader(
    ids: Sequence[int],
    context: int,
    batch_size: int = 32,
    seed: int = 0,
    shuffle: bool = True,
    validation: float = 0.0,
    held_out: bool = False,
) -> Loader:
    """Blocks of ``context`` tokens, with labels of the same tokens. ``validation`` is the fraction at
    the end of the text that is kept back; ``held_out`` takes that part."""
    return Loader(_heed.lm_loader(list(ids), context, batch_size, seed, shuffle, validation, held_out), shuffle)


def pair_loader(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    start: int,
    end: int = -1,
    padding: int = 0,
    batch_size: int = 32,
    seed: int = 0,
    shuffle: bool = True,
    validation: float = 0.0,
    held_out: bool = False,
) -> Loader:
    """Pairs of like length together: labels are the target, decoder_input_ids the target one later."""
    pairs = [list(each) for each in sources], [list(each) for each in targets]
    return Loader(
        _heed.pair_loader(*pairs, padding, start, end, batch_size, seed, shuffle, validation, held_out), shuffle
    )


def class_loader(
    texts: Sequence[Sequence[int]],
    labels: Sequence[int],
    padding: int = 0,
    batch_size: int = 32,
    seed: int = 0,
    shuffle: bool = True,
    validation: float = 0.0,
    held_out: bool = False,
) -> Loader:
    """Texts of like length together; labels [B]."""
    rows = [list(each) for each in texts]
    return Loader(
        _heed.class_loader(rows, list(labels), padding, batch_size, seed, shuffle, validation, held_out), shuffle
    )


def caption_loader(
    features: Tensor,
    captions: Sequence[Sequence[int]],
    start: int,
    end: int,
    padding: int = 0,
    batch_size: int = 32,
    seed: int = 0,
    shuffle: bool = True,
) -> Loader:
    """Features [N, regions, F] with the ids of a caption each."""
    rows = [list(each) for each in captions]
    return Loader(_heed.caption_loader(features, rows, padding, start, end, batch_size, seed, shuffle), shuffle)


def synthetic_sets() -> dict[str, str]:
    """The synthetic datasets, each with a line about it."""
    return dict(_heed.synthetic_sets())


def synthetic(
    name: str, count: int, language: str = "en", seed: int = 0, held_out: bool = False, first: int = 0
) -> list[dict[str, Any]]:
    """Examples of a synthetic dataset of text or numbers; an example depends on its index alone."""
    return [_heed.synthetic_example(name, i, language, seed, held_out) for i in range(first, first + count)]


def shapes(count: int, seed: int = 0, held_out: bool = False) -> list[tuple[Tensor, str]]:
    """Drawn images, u8 [32, 32, 3], with their captions."""
    return [_heed.shapes_example(i, seed, held_out) for i in range(count)]


def write_synthetic(
    name: str, count: int, path: PathLike, language: str = "en", seed: int = 0, held_out: bool = False
) -> None:
    """Writes examples as .jsonl or .tsv, and shapes as a folder of images with captions.tsv."""
    _heed.write_synthetic_set(name, count, path, language, seed, held_out)
