"""One table of texts, as a terminal, a page or a document shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings, with a title above and a note below.

    The first ``keys`` columns name a row.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    keys: int = 1

    def show(self) -> None:
        """Print it on standard output, as wide as that is."""
        from pipelines.report.terminal import print_table

        print_table(self.headings, self.rows, title=self.title, caption=self.note, keys=self.keys)
