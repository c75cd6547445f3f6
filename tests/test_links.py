"""What the pages point to exists, and the reference names everything that can be asked for."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from models.runtime import names
from pipelines.cli import cli
from sim.kernel.corrections import CORRECTIONS
from sim.policy import SEMANTICS
from sim.schedulers.names import ALGORITHMS, ORDERS

HOUSE = Path(__file__).parents[1]
PAGES = [HOUSE / "README.md", HOUSE / "CONTRIBUTING.md", *sorted((HOUSE / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.exists()]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BENCHMARK = re.compile(r"`python -m (benchmarks(?:\.\w+)+)[^`]*`(?!\s+(?:at commit|as committed))")
"""A command beside the commit that it was run at is history: there it had its name of then."""


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_every_benchmark_named_can_be_run(page):
    named = set(BENCHMARK.findall(page.read_text(encoding="utf-8")))
    assert all((HOUSE / f"{name.replace('.', '/')}.py").exists() for name in named), named


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
