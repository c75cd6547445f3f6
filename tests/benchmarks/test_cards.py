"""The cards of docs/studies: each is what its program makes of the data beside it, and every picture is shown."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from benchmarks.common.card import MOST_WORDS, Card
from benchmarks.common.pages import HOUSE, STUDIES

PROGRAMS = [
    ".".join(file.relative_to(HOUSE).with_suffix("").parts)
    for file in sorted((HOUSE / "benchmarks").rglob("*.py"))
    if re.search(r"def main(?s:.*)\b(rows_of|study)\(\s*(options|parser)", file.read_text(encoding="utf-8"))
]
PAGES = [*sorted(STUDIES.glob("*.md")), *sorted((HOUSE / "docs").glob("*.md")), HOUSE / "README.md"]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_card_is_what_its_program_makes_of_the_data(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, str] = {}
    monkeypatch.setattr(Card, "write", lambda card, name: written.update({name: card.markdown()}))
    monkeypatch.setattr(Path, "write_bytes", lambda *_: 0)
    monkeypatch.setattr(sys, "argv", [program, "--card"])
    module = importlib.import_module(program)
    monkeypatch.setattr(module, "draw", lambda *_: b"", raising=False)
    module.main()
    assert written
    for name, text in written.items():
        assert text == (STUDIES / f"{name}.md").read_text(encoding="utf-8")


def test_cards_are_short_and_no_picture_is_without_a_page() -> None:
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in STUDIES.glob("*.md")}
    assert {name: count for name, count in words.items() if count > MOST_WORDS} == {}
    shown = {name for page in PAGES for name in re.findall(r"([\w-]+\.png)", page.read_text(encoding="utf-8"))}
    assert {picture.name for picture in STUDIES.glob("*.png")} <= shown
