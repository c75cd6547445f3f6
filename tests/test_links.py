"""What the pages point to exists, and the reference names everything that can be asked for."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

import queuecast
from models.runtime import names
from pipelines.cli import cli
from sim.kernel.corrections import CORRECTIONS
from sim.kernel.orders import ORDERS
from sim.policy import SEMANTICS
from sim.schedulers.names import ALGORITHMS

HOUSE = Path(__file__).parents[1]
ROOMS = ("features", "models", "sim", "pipelines", "tests", "benchmarks")
PAGES = [HOUSE / "README.md", HOUSE / "CONTRIBUTING.md", *sorted((HOUSE / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.exists()]
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"\[([\w-]+\.md)\]\(([^)\s#]+)")
"""A link that shows the name of a page."""
BENCHMARK = re.compile(r"`python -m (benchmarks(?:\.\w+)+)[^`]*`(?!\s+(?:at commit|as committed))")
"""A command beside the commit that it was run at is history: there it had its name of then."""
MODULES = [HOUSE / "queuecast.py", *(path for room in ROOMS for path in sorted((HOUSE / room).rglob("*.py")))]
PLACES = [f"/{module.relative_to(HOUSE).as_posix()}" for module in MODULES]
FILE = re.compile(r"`((?:\w+/)*[a-z_]\w*\.py)`(?! at commit)")
PART = re.compile(r"`(\w+)`(?: \([^)]*\))? (?:of|in) `((?:\w+/)*[a-z_]\w*\.py)`(?! at commit)")
"""A name and the file that has it, as in `ROLE` of `test_links.py`."""
ROLE = re.compile(r":(?:mod|func|class|data|meth|attr|exc):`[~!]?([\w.]+)`")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_every_link_leads_somewhere(page):
    missing = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file) if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    assert not missing


def test_a_link_that_shows_a_page_s_name_leads_to_that_page():
    shown = [(page, *link) for page in PAGES for link in PAGE.findall(page.read_text(encoding="utf-8"))]
    assert len(shown) > 10
    assert [(page, name, target) for page, name, target in shown if Path(target).name != name] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_every_benchmark_named_can_be_run(page):
    named = set(BENCHMARK.findall(page.read_text(encoding="utf-8")))
    assert all((HOUSE / f"{name.replace('.', '/')}.py").exists() for name in named), named


@cache
def statements(path: Path) -> dict[str, ast.stmt]:
    """Return the statement that defines or imports each top-level name of a module."""
    return defined(ast.parse(path.read_text(encoding="utf-8")).body)


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the statement that binds each name of a module's or class's body."""
    bound: dict[str, ast.stmt] = {}
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] = statement
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                bound |= dict.fromkeys((alias.asname or alias.name for alias in aliases), statement)
            case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                bound |= defined(inner) | defined(other)
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
                bound |= dict.fromkeys(names, statement)
    return bound


def resolves(name: str, here: Path) -> bool:
    """Return whether the module ``here``, the module that ``name`` begins with, or a library has what a docstring names."""
    first, *rest = name.split(".")
    if here.stem == "queuecast" and hasattr(queuecast, first):  # names that it brings from the packages
        return True
    path = here
    if first in ROOMS or first == "queuecast":
        path = HOUSE / first
        while rest and ((path / rest[0]).is_dir() or (path / f"{rest[0]}.py").exists()):
            path /= rest.pop(0)
        if not rest:
            return True
        path = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        first, *rest = rest
    in_module = statements(path)
    statement = in_module.get(first)
    if isinstance(statement, ast.ClassDef) and rest:
        return bool(statement.bases) or rest[0] in defined(statement.body)
    members = [defined(other.body) for other in in_module.values() if isinstance(other, ast.ClassDef)]
    if statement is not None or path != here:
        return statement is not None
    is_library = bool(rest) and find_spec(first) is not None
    return is_library or any(first in names for names in members)


def test_every_python_file_named_is_there():
    named = [(page, name) for page in (*PAGES, *MODULES) for name in FILE.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 50
    assert [(page, name) for page, name in named if not any(place.endswith(f"/{name}") for place in PLACES)] == []


def test_every_name_said_to_be_in_a_file_is_there():
    parts = [(page, *part) for page in (*PAGES, *MODULES) for part in PART.findall(page.read_text(encoding="utf-8"))]
    assert len(parts) > 10

    def has(name: str, file: str) -> bool:
        texts = (HOUSE / place[1:] for place in PLACES if place.endswith(f"/{file}"))
        return any(re.search(rf"\b{name}\b", text.read_text(encoding="utf-8")) for text in texts)

    assert [part for part in parts if not has(*part[1:])] == []


def test_every_name_in_a_docstring_is_there():
    named = [(module, name) for module in MODULES for name in ROLE.findall(module.read_text(encoding="utf-8"))]
    assert len(named) > 500
    assert [(module, name) for module, name in named if not resolves(name, module)] == []


@pytest.mark.slow
def test_the_reference_names_everything_that_can_be_asked_for():
    text = (HOUSE / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
    asked = [*ALGORITHMS, *ORDERS, *CORRECTIONS, *SEMANTICS, *names.NAMES, *commands(cli)]
    named = re.sub(r"`F1` to `F4`", "`F1` `F2` `F3` `F4`", text)
    assert [name for name in asked if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", named)] == []


def commands(group: click.Group) -> list[str]:
    """Every command and subcommand that a user types."""
    with click.Context(group) as context:
        members = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return [*members, *(inner for each in members.values() if isinstance(each, click.Group) for inner in commands(each))]
