"""Write what a study says as a card: question, answer, picture, table, where it fails, how it was made.

The program of a study makes a :class:`Card` of its rows, just computed or as they lie in ``docs/studies/data``; the latter
keep the command and the commit that the card before names (:func:`made_before`). All rows stay in ``data/``, and what
the protocol is stands in the program's docstring.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES, made_by
from pipelines.lake.places import replacing
from pipelines.report.table import Table

MOST_WORDS = 400
"""Of the whole card, as ``wc -w`` counts: bars of the table are words, too."""
MOST_ROWS = 10
NUMBER = re.compile(r"(?:\*\*)?[-+−±]?\d|[–-]?$")
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
        picture = f"![figure]({self.picture})\n\n*{self.picture_caption}*" if self.picture else ""
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
        text = "\n\n".join(part for part in parts if part).replace("P2SF", "P²SF") + "\n"
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


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with ``--shared``, ``--write`` and ``--card``, as every study has them."""
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    arguments.add_argument("--write", action="store_true", help="write the card, its picture and its data")
    arguments.add_argument("--card", action="store_true", help="run nothing: write the card of the data that are there")
    return arguments


def rows_of(
    options: argparse.Namespace, module: str, file: str, compute: Callable[[], pd.DataFrame], folder: Path = STUDIES
) -> tuple[pd.DataFrame, str]:
    """Return a study's rows, and the sentence that says how they were made.

    With ``--card`` those that ``file`` has in ``folder/data``; otherwise those of ``compute``, written there with ``--write``.
    ``module`` is the benchmark's under ``benchmarks``; ``file`` has the name of the card.
    """
    path = folder / "data" / file
    if options.card:
        return read_rows(path), made_before(path.stem, folder)
    rows = compute()
    if options.write:
        write_rows(path, rows)
    return rows, made_by(module)


def read_rows(path: Path) -> pd.DataFrame:
    """Read a table of ``data/``, CSV or Parquet."""
    return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


def write_rows(path: Path, rows: pd.DataFrame) -> None:
    """Write a table of ``data/``, CSV with six digits or Parquet, whole or not at all."""
    with replacing(path) as unfinished:
        if path.suffix == ".csv":
            rows.to_csv(unfinished, index=False, lineterminator="\n", float_format="%.6g")
        else:
            rows.to_parquet(unfinished, index=False, compression="zstd")


def show(card: Card, name: str, options: argparse.Namespace) -> None:
    """Print a card; with ``--write`` or ``--card`` write it."""
    print(card.markdown())
    if options.write or options.card:
        card.write(name)


def study(
    options: argparse.Namespace,
    module: str,
    file: str,
    compute: Callable[[], pd.DataFrame],
    card: Callable[[pd.DataFrame, str], Card],
    draw: Callable[[pd.DataFrame], bytes] | None = None,
) -> None:
    """Show the ``card`` of a study's rows (:func:`rows_of`), and write it, with the picture that ``draw`` makes, where asked to."""
    rows, made_by = rows_of(options, module, file, compute)
    name = Path(file).stem
    show(card(rows, made_by), name, options)
    if draw is not None and (options.write or options.card):
        (STUDIES / f"{name}.png").write_bytes(draw(rows))


def _rows(table: pd.DataFrame) -> str:
    """Return the table in Markdown, columns of numbers aligned to the right."""
    texts = table.map(lambda value: format(value, ".4g") if isinstance(value, float) else str(value))
    words = [str(name) for name in texts if not all(map(NUMBER.match, texts[name]))]
    return Table("", list(map(str, texts)), texts.to_numpy().tolist(), left=words).markdown()
