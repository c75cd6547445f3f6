"""The cards of docs/studies: each is what its program makes of the data beside it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from benchmarks.common.card import Card
from benchmarks.common.pages import HOUSE, STUDIES

PROGRAMS = [
    ".".join(file.relative_to(HOUSE).with_suffix("").parts)
    for file in sorted((HOUSE / "benchmarks").glob("*/*.py"))
    if "rows_of(options" in file.read_text(encoding="utf-8")
]


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
