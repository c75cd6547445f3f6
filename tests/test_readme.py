"""The README says what is so: its Python prints what it shows, its commands are understood, and it stays short."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import click
import pytest

from pipelines.cli import cli

HOUSE = Path(__file__).parents[1]
TEXT = (HOUSE / "README.md").read_text(encoding="utf-8")
PAGES = [HOUSE / "README.md", *sorted((HOUSE / "docs").rglob("*.md"))]


def commands(page: Path) -> list[str]:
    """Return the lines of a page's blocks that call ``queuecast``."""
    blocks = re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("queuecast ")]


def test_the_python_prints_what_it_says():
    failed, attempted = doctest.testfile(str(HOUSE / "README.md"), module_relative=False)
    assert attempted >= 5
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_every_command_is_understood(page: Path):
    for line in commands(page):
        group, words = cli, shlex.split(line, comments=True)[1:]
        while isinstance(group, click.Group) and (words or not group.invoke_without_command):
            with click.Context(group) as context:
                name, group, words = group.resolve_command(context, words)
        group.make_context(name, words).close()


def test_make_has_what_the_readme_asks_for():
    asked = set(re.findall(r"`?make ([a-z-]+)", TEXT))
    assert asked >= {"run", "test", "ui"}
    assert asked <= set(re.findall(r"^([a-z-]+):", (HOUSE / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_it_is_short():
    assert len(TEXT.split()) <= 700
