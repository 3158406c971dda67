"""The lessons' notebooks: up to date with their sources, executed, with the outputs that they show."""
import importlib.util
import pathlib

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "notebooks"
spec = importlib.util.spec_from_file_location("make", FOLDER / "make.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


def stored(number, language):
    return nbformat.read(next((FOLDER / language).glob(f"{number}-*.ipynb")), as_version=4)


def printed(notebook):
    """What the cells print; pictures are left out, whose last digits depend on the machine."""
    return ["".join(out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stdout")
            for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("number", make.numbers())
def test_lesson(number):
    english, korean = stored(number, "en"), stored(number, "ko")
    for language, notebook in (("en", english), ("ko", korean)):
        fresh = make.notebook(number, language)
        assert [cell.source for cell in notebook.cells] == [cell.source for cell in fresh.cells], "run docs/notebooks/make.py"
        assert any("PyTorch" in cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert printed(english) == printed(korean)
    assert any(cell.get("outputs") for cell in english.cells)
    again = make.execute(make.notebook(number, "en"))
    assert printed(again) == printed(english)


def test_every_lesson_is_a_notebook():
    pages = sorted(page.stem[:2] for page in (FOLDER.parent / "tutorial" / "en").glob("[0-9][0-9]-*.md"))
    assert make.numbers() == pages and len(pages) >= 15
