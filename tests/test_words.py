"""Plain words: docstrings open with one short sentence, and texts name jobs, models and functions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parents[1]
ROOMS = [HOUSE / room for room in ("features", "models", "sim", "pipelines")]
CODE = [file for room in ROOMS for file in sorted(room.rglob("*.py"))]
PAGES = [file for room in ROOMS for file in sorted(room.rglob("*.j2"))]
LONGEST = 88
BANNED = re.compile(r"\b(who|somebody|nobody|whoever|whosoever|everybody|anybody|lest|wherefore)\b", re.IGNORECASE)
NUMBERED = re.compile(r"\bpaper[ ]0{2}\d", re.IGNORECASE)
"""A paper by a file's number instead of its authors."""
VAGUE = {"found", "made", "known", "told", "stated", "said"}
"""Names of variables that say nothing of what they hold."""
WRITTEN = {".py", ".md", ".j2", ".toml", ".css", ".yaml", ".yml"}


def documented(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of every public module, class and function in ``node``."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
        yield name, text
    for inner in getattr(node, "body", []):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and not inner.name.startswith("_"):
            yield from documented(inner, f"{name}:{inner.name}")


def said(source: str) -> str:
    """Return the comments and strings of Python code, without its names."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))


def assigned(source: str | bytes) -> Iterator[tuple[int, str]]:
    """Yield line and name of every local variable of Python code, without parameters."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in parameters:
                    yield node.lineno, node.id


def place(file: Path) -> str:
    return str(file.relative_to(HOUSE))


def test_docstrings_open_with_one_short_sentence() -> None:
    wrong = []
    for file in CODE:
        for name, text in documented(ast.parse(file.read_bytes()), place(file)):
            first = text.partition("\n")[0]
            if len(first) > LONGEST or not first.endswith("."):
                wrong.append(f"{name}: {first}")
    assert not wrong, f"first lines of more than {LONGEST} characters, or without a full stop:\n" + "\n".join(wrong)


def test_texts_name_jobs_models_and_functions() -> None:
    wrong = []
    for file in [*CODE, *PAGES]:
        source = file.read_text(encoding="utf-8")
        if BANNED.search(source):  # of code the names may; what is written may not
            text = said(source) if file.suffix == ".py" else source
            wrong += [f"{place(file)}: {word}" for word in BANNED.findall(text)]
    assert not wrong, "say which job, model, user or function:\n" + "\n".join(wrong)


def test_variables_say_what_they_hold() -> None:
    wrong = [f"{place(file)}:{line}: {name}" for file in CODE for line, name in assigned(file.read_bytes()) if name in VAGUE]
    assert not wrong, "name what it is:\n" + "\n".join(wrong)


def test_papers_are_named_by_their_authors() -> None:
    folders = [*ROOMS, HOUSE / "tests", HOUSE / "benchmarks", HOUSE / "docs"]
    files = [*HOUSE.glob("*"), *(file for folder in folders for file in folder.rglob("*"))]
    written = [file for file in files if file.suffix in WRITTEN and file.is_file()]
    assert [place(file) for file in written if NUMBERED.search(file.read_text(encoding="utf-8"))] == []


def test_the_checks_find_what_they_look_for() -> None:
    bad = ast.parse('"""Who says whether a job had better wait"""\ndef f():\n    """Short."""\ndef _g():\n    """x"""\n')
    assert dict(documented(bad, "m")) == {"m": "Who says whether a job had better wait", "m:f": "Short."}
    assert BANNED.findall(said("nobody = 1  # whoever asks\n")) == ["whoever"]
    assert NUMBERED.search("paper " + "004")
    shadowed = "def f(known):\n    found, known = known\n    [made for made in known]\n"
    assert [*assigned(shadowed)] == [(2, "found"), (3, "made")]
