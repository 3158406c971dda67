"""PyTorch programs of docs/port, ported by their imports alone."""
import pathlib
import re

import pytest

PORT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "port"
IMPORTS = [
    (r"^import torch\.nn\.functional as F$", "import heed.nn.functional as F"),
    (r"^import torch\.nn as nn$", "import heed.nn as nn"),
    (r"^import torch\.optim as optim$", "import heed.optim as optim"),
    (r"^from torch\.nn import functional as F$", "from heed.nn import functional as F"),
    (r"^import torch$", "import heed as torch"),
]


def run(name, ours):
    source = (PORT / f"{name}.py").read_text()
    if ours:
        for pattern, line in IMPORTS:
            source = re.sub(pattern, line, source, flags=re.MULTILINE)
        assert not re.search(r"^(import|from) torch", source, re.MULTILINE)
    space = {"__name__": name}
    exec(compile(source, name, "exec"), space)
    return space["main"]()


both = pytest.mark.parametrize("ours", [True, False], ids=["heed", "torch"])


@pytest.fixture(autouse=True)
def needs(request):
    if "ours" in request.fixturenames and not request.getfixturevalue("ours"):
        pytest.importorskip("torch").set_num_threads(1)


@both
def test_plus_two(ours):
    answer, loss = run("plus_two", ours)
    assert loss < 2e-3 and all(abs(a - b) < 12 for a, b in zip(answer, (12, 22, 32, 42, 52)))


@both
def test_multi_head(ours):
    assert run("multi_head", ours) == ((2, 10, 64), (2, 8, 10, 10), True)


@both
def test_gpt(ours):
    first, last, text = run("gpt", ours)
    assert 3 < first < 4.5 and last < 1 and len(text) == 41


def test_the_page_shows_these_programs():
    for language in ("", ".ko"):
        page = (PORT.parent / "guide" / f"pytorch{language}.md").read_text()
        for name in ("plus_two", "multi_head", "gpt"):
            body = (PORT / f"{name}.py").read_text()
            assert body[body.index("class ") :].split('if __name__')[0].strip() in page
