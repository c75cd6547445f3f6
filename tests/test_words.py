"""Plain words: docstrings open with one short sentence, and texts name jobs, models and functions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
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
"""Names that say nothing of what they hold or do."""
POINTING = {"each", "of", "there", "given", "mine", "asked"}
"""Names that point at something without naming it: none below the commands, but for keys of a machine's file."""
WRITTEN = {".py", ".md", ".j2", ".toml", ".css", ".yaml", ".yml"}


def documented(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of every public module, class and function in ``node``."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
        yield name, text
    for inner in getattr(node, "body", []):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and not inner.name.startswith("_"):
            yield from documented(inner, f"{name}:{inner.name}")


def prose(source: str) -> str:
    """Return the comments and strings of Python code, without its names."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))


def named(source: str | bytes) -> Iterator[tuple[int, str]]:
    """Yield line and name of every function, parameter, field and variable that Python code defines, without underscores in front."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name.lstrip("_")
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name.lstrip("_")


def constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of what a module's top level assigns."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield statement.lineno, node.id


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
            text = prose(source) if file.suffix == ".py" else source
            wrong += [f"{place(file)}: {word}" for word in BANNED.findall(text)]
    assert not wrong, "say which job, model, user or function:\n" + "\n".join(wrong)


def test_names_say_what_they_hold() -> None:
    files = [*CODE, *(file for folder in ("tests", "benchmarks", "docs") for file in sorted((HOUSE / folder).rglob("*.py")))]
    suspects = [file for file in files if re.search(rf"\b_*({'|'.join(VAGUE)})\b *[,:=()]", file.read_text(encoding="utf-8"))]
    wrong = [(place(file), name) for file in suspects for _, name in named(file.read_bytes()) if name in VAGUE]
    assert not wrong, "say what it holds"


def test_rooms_below_the_commands_name_values() -> None:
    wrong = []
    for file in (file for file in CODE if file.relative_to(HOUSE).parts[0] != "pipelines"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) if name in POINTING:
                    wrong.append((place(file), name))
    assert wrong == [("sim/machine/description.py", "of"), ("sim/machine/description.py", "asked")]


def test_a_class_name_and_a_time_that_never_comes_are_defined_once() -> None:
    """Hold one name for one thing: a reader who looks up a class or a marker of a time finds one definition."""
    places = defaultdict(set)
    for file in CODE:
        tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(f"{place(file)}:{node.lineno}")
        for _, name in constants(tree):
            if name in ("NEVER", "HEAD"):
                places[name].add(place(file))
    assert {name: sorted(where) for name, where in places.items() if len(where) > 1} == {}


def test_papers_are_named_by_their_authors() -> None:
    folders = [*ROOMS, HOUSE / "tests", HOUSE / "benchmarks", HOUSE / "docs"]
    files = [*HOUSE.glob("*"), *(file for folder in folders for file in folder.rglob("*"))]
    written = [file for file in files if file.suffix in WRITTEN and file.is_file()]
    assert [place(file) for file in written if NUMBERED.search(file.read_text(encoding="utf-8"))] == []


def test_the_checks_find_what_they_look_for() -> None:
    bad = ast.parse('"""Who says whether a job had better wait"""\ndef f():\n    """Short."""\ndef _g():\n    """x"""\n')
    assert dict(documented(bad, "m")) == {"m": "Who says whether a job had better wait", "m:f": "Short."}
    assert BANNED.findall(prose("nobody = 1  # whoever asks\n")) == ["whoever"]
    assert NUMBERED.search("paper " + "004")
    assert {*constants(ast.parse("A, HEAD = range(2)\nB = 1\n"))} == {(1, "A"), (1, "HEAD"), (2, "B")}
    every = "class A:\n    told: int\n    def f(self, known):\n        self._said = known\n        [made for made in known]\n"
    assert {*named(every)} == {(1, "A"), (2, "told"), (3, "f"), (3, "self"), (3, "known"), (4, "said"), (5, "made")}
