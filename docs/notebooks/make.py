#!/usr/bin/env python3
"""Writes the lessons as notebooks, in English and Korean, with their outputs.

A notebook is a page of docs/tutorial whose pictures and blocks of C++ and output are replaced, in
order, by the slots of lessons/NN.py. A cell headed "torch" holds the PyTorch lines that the next
cell replaces. Needs nbformat, nbclient, ipykernel and heed: make.py [NN…]
"""

from __future__ import annotations

import pathlib
import re
import sys

import nbformat
from nbclient import NotebookClient

HERE = pathlib.Path(__file__).resolve().parent
TUTORIAL = HERE.parent / "tutorial"
IN_PYTORCH = {"en": "In PyTorch:", "ko": "PyTorch에서는:"}
IN_HEED = {"en": "With heed:", "ko": "heed에서는:"}
SLOT = re.compile(r"```(cpp|text|bash)\n.*?```\n?|^!\[[^\n]*$", re.DOTALL | re.MULTILINE)


def slots(lesson: pathlib.Path) -> list[list[tuple[str, str]]]:
    """The cells of each slot: ("torch" or "code", source)."""
    made: list[list[tuple[str, str]]] = []
    for part in re.split(r"^# %%", lesson.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, source = part.partition("\n")
        if head.strip() == "slot":
            made.append([])
        elif head.strip() == "torch":
            made[-1].append(("torch", re.sub(r"^# ?", "", source, flags=re.MULTILINE).strip()))
        else:
            made[-1].append(("code", source.strip()))
    return made


def prose(text: str) -> str:
    # A notebook lies beside the folder of the pages.
    return re.sub(r"\]\((\.\./\.\./)", "](../../", text).strip()


def notebook(number: str, language: str) -> nbformat.NotebookNode:
    page = next((TUTORIAL / language).glob(f"{number}-*.md")).read_text(encoding="utf-8")
    cells = []
    waiting = slots(HERE / "lessons" / f"{number}.py")
    at = 0
    for found in SLOT.finditer(page):
        if text := prose(page[at : found.start()]):
            cells.append(nbformat.v4.new_markdown_cell(text))
        at = found.end()
        if found.group(1) == "bash":
            continue
        for kind, source in waiting.pop(0) if waiting else []:
            if kind == "torch":
                block = f"{IN_PYTORCH[language]}\n\n```python\n{source}\n```\n\n{IN_HEED[language]}"
                cells.append(nbformat.v4.new_markdown_cell(block))
            else:
                cells.append(nbformat.v4.new_code_cell(source))
    if text := prose(page[at:]):
        cells.append(nbformat.v4.new_markdown_cell(text))
    assert not waiting, f"{number} {language}: {len(waiting)} slots have no place in the page"
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def execute(made: nbformat.NotebookNode) -> nbformat.NotebookNode:
    NotebookClient(made, timeout=300, kernel_name="python3").execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # times differ from run to run
    return made


def numbers() -> list[str]:
    return sorted(path.stem for path in (HERE / "lessons").glob("*.py"))


def main() -> None:
    for number in sys.argv[1:] or numbers():
        english = execute(notebook(number, "en"))
        korean = notebook(number, "ko")
        results = [cell for cell in english.cells if cell.cell_type == "code"]
        for cell in korean.cells:  # the same code: the same results
            if cell.cell_type == "code":
                done = results.pop(0)
                assert done.source == cell.source
                cell.outputs, cell.execution_count = done.outputs, done.execution_count
        for language, made in (("en", english), ("ko", korean)):
            (HERE / language).mkdir(exist_ok=True)
            name = next((TUTORIAL / language).glob(f"{number}-*.md")).stem
            nbformat.write(made, HERE / language / f"{name}.ipynb")
        print(number, flush=True)


if __name__ == "__main__":
    main()
