"""A small language model, trained once for all tests."""
import pathlib

import numpy as np
import pytest

import heed


@pytest.fixture(scope="session")
def lm(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("lm")
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 200)
    run = heed.train("lm", text, folder / "run", tokenizer="char", layers=2, heads=2, width=32,
                     context=32, batch=4, steps=5, progress=False)
    assert run["steps"] == 5 and np.isfinite(run["loss"])
    return folder / "run"
