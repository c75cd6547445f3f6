"""The README says what is so: its numbers are those of a run, its Python prints what it shows, its commands are understood, and it stays short."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import click
import pandas as pd
import pytest

from pipelines.cli import cli
from sim.metrics.names import METRICS
from sim.metrics.verdict import WEIGHED, change, interval, number, predictions, verdict
from sim.policy import NAMES

HOUSE = Path(__file__).parents[1]
TEXT = (HOUSE / "README.md").read_text(encoding="utf-8")
PAGES = [HOUSE / "README.md", *sorted((HOUSE / "docs").rglob("*.md"))]


def test_its_numbers_are_those_of_the_run_that_is_kept_beside_its_picture():
    table = pd.read_csv(HOUSE / "docs" / "kth-sp2.csv", keep_default_na=False, na_values=[""])
    table = table.fillna(dict.fromkeys(NAMES, ""))
    lines, changes = [], set()
    for (scheduler, predictor, _), rows in table.groupby([*NAMES], sort=False):
        at = rows.set_index("metric").loc[[*WEIGHED]].to_dict("index")
        values = [number(row["value"], METRICS[metric].kind) for metric, row in at.items()]
        relative = [change(row["relative"]) for row in at.values()]
        changes |= {f"{change(row['relative'])} {interval(row['low'], row['high'])}" for row in at.values()}
        is_base = (scheduler, predictor) == ("EASY", "requested")
        cells = values if is_base else [f"{value} ({moved})" for value, moved in zip(values, relative, strict=True)]
        lines.append(f"| {scheduler} | {predictions(predictor)} | {' | '.join(cells)} |")
    shown = re.findall(r"^\| (?:EASY|Harm).*\|$", TEXT, re.MULTILINE)
    assert len(shown) >= 5
    assert set(shown) <= set(lines)
    quoted = re.findall(r"[+−][\d.]+ % \[[^\]]+\]", TEXT)
    assert len(quoted) >= 2
    assert set(quoted) <= changes
    weighed = verdict(table, ("EASY", "requested"))
    harm = ("Harm", "registry:runtime-kth-sp2", "requested")
    assert weighed.tone(harm, "mean_bounded_slowdown"), "the README says which surely lowers slowdown"
    assert weighed.worse[harm] == ()


def commands(page: Path) -> list[str]:
    """Return the lines of a page's blocks that call ``queuecast``."""
    blocks = re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("queuecast ")]


@pytest.mark.slow
def test_the_python_prints_what_it_says():
    failed, attempted = doctest.testfile(str(HOUSE / "README.md"), module_relative=False)
    assert attempted >= 3
    assert failed == 0


@pytest.mark.slow
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
    assert len(TEXT.split()) <= 800
