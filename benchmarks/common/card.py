"""Write what a study says as a card: question, answer, picture, table, where it fails, how it was made.

The program of a study makes a :class:`Card` of its rows, just computed or as they lie in ``docs/studies/data``; the latter
keep the command and the commit that the card before names (:func:`made_before`). All rows stay in ``data/``, and what
the protocol is stands in the program's docstring.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.common.pages import STUDIES
from pipelines.report.table import Table

MOST_WORDS = 400
"""Of the whole card, as ``wc -w`` counts: bars of the table are words, too."""
MOST_ROWS = 10
NUMBER = re.compile(r"[-+−±]?\d|[–-]?$")
MADE_BY = re.compile(r"Made by `python -m[^`]*`[^.]*\bcommit [^.]*\.")


@dataclass(frozen=True)
class Card:
    """A study on one page; :meth:`markdown` refuses more than 400 words, ten rows, or a table without rows.

    ``answer`` is two sentences; ``picture`` a file beside the card, or "", and ``picture_caption`` what it shows; ``table_caption``
    says what the figures of ``table`` are: unit, replays, which way is better. The first column names a row; fractions are shown with
    four digits, and other forms are given as texts. ``fails`` says where the answer does not hold, ``data`` names
    files in ``data/``, ``made_by`` is :func:`benchmarks.common.pages.made_by`.
    """

    question: str
    answer: str
    table: pd.DataFrame
    table_caption: str
    fails: str
    data: Sequence[str]
    made_by: str
    picture: str = ""
    picture_caption: str = ""

    def markdown(self) -> str:
        """Return the card; ValueError if it is longer than a card may be."""
        if not 1 <= len(self.table) <= MOST_ROWS:
            raise ValueError(f"{self.question}: {len(self.table)} rows, where a card shows 1 to {MOST_ROWS}")
        picture = f"![{self.picture_caption}]({self.picture})\n\n*{self.picture_caption}*" if self.picture else ""
        data = ", ".join(f"[data/{name}](data/{name})" for name in self.data)
        parts = (
            f"# {self.question}",
            self.answer,
            picture,
            self.table_caption,
            _rows(self.table),
            f"**Where it fails.** {self.fails}",
            f"All rows: {data}. {self.made_by}",
        )
        text = "\n\n".join(part for part in parts if part) + "\n"
        words = len(text.split())
        if words > MOST_WORDS:
            raise ValueError(f"{self.question}: {words} words, where a card has at most {MOST_WORDS}")
        return text

    def write(self, name: str, folder: Path = STUDIES) -> None:
        """Write the card to ``folder`` as ``name.md``."""
        (folder / f"{name}.md").write_text(self.markdown(), encoding="utf-8")


def made_before(name: str, folder: Path = STUDIES) -> str:
    """Return the sentences of a page that name commands and commits, for a card of data that were not made anew."""
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    sentences = dict.fromkeys(" ".join(each.split()) for each in MADE_BY.findall(text))
    if not sentences:
        raise ValueError(f"{name}.md: names no command and commit as 'Made by `python -m ...` at commit ...'")
    return " ".join(sentences)


def _rows(table: pd.DataFrame) -> str:
    """Return the table in Markdown, columns of numbers aligned to the right."""
    texts = table.map(lambda value: format(value, ".4g") if isinstance(value, float) else str(value))
    words = [str(name) for name in texts if not all(map(NUMBER.match, texts[name]))]
    return Table("", list(map(str, texts)), texts.to_numpy().tolist(), left=words).markdown()
