"""The notebooks of the docs answer what they show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.notebooks import FOLDER, executed
from tests.conftest import needs_shared

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """What cells answer as text; figures by their kind alone."""
    outputs = [each for cell in notebook["cells"] for each in cell.get("outputs", [])]
    return [each["text"] if "text" in each else each["data"]["text/plain"] for each in outputs]


def test_cells_answer_what_they_print_and_their_last_value() -> None:
    cell = {"cell_type": "code", "source": ["x = 2\n", "print(x)\n", "x + 1"], "outputs": []}
    notebook = executed({"cells": [cell, {**cell, "source": ["y = x"]}, {"cell_type": "markdown", "source": ["z"]}]})
    assert texts(notebook) == [["2\n"], ["3"]]
    assert [each.get("execution_count") for each in notebook["cells"]] == [1, 2, None]


@needs_shared
@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_answers_what_it_shows(path: Any) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert len(stored["cells"]) <= 8
    assert texts(stored)
    assert texts(executed(stored)) == texts(stored)
