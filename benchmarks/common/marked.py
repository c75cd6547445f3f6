"""Replace the tables of a page whose text is written by hand, between two marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def marks(name: str) -> tuple[str, str]:
    """What stands before and after the part called ``name``."""
    return f"<!-- {name} begin -->", f"<!-- {name} end -->"


def replace_parts(path: Path, parts: Mapping[str, str]) -> None:
    """Put each of ``parts`` between its marks in a page; ValueError if they are not there."""
    page = path.read_text(encoding="utf-8")
    for name, text in parts.items():
        begin, end = marks(name)
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{path}: has no place for {name}: the marks {begin} and {end}")
        head, rest = page.split(begin)
        page = f"{head}{begin}\n{text.strip()}\n{end}{rest.split(end)[1]}"
    path.write_text(page, encoding="utf-8")
