"""Execute the notebooks of docs/notebooks and store what they answer: ``python -m benchmarks.notebooks``.

Cells run in one process without Jupyter: printed text, then the value of a last expression, as text, HTML and PNG where it has them.
"""

from __future__ import annotations

import ast
import base64
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook (nbformat 4) whose code cells hold what they answer now."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count, cells = 0, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = {**cell, "execution_count": count, "outputs": _answers("".join(cell["source"]), names, count)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _answers(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree, value = ast.parse(source), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    lines = printed.getvalue().splitlines(keepends=True)
    answers: list[dict[str, Any]] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    if value is not None:
        answers.append({"data": _shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return answers


def _shown(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if isinstance(value, Figure):
        image = io.BytesIO()
        value.savefig(image, format="png", dpi=70)
        data["image/png"] = base64.b64encode(image.getvalue()).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return data


def main() -> None:
    """Execute all notebooks, in place."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        text = json.dumps(executed(json.loads(path.read_text(encoding="utf-8"))), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
