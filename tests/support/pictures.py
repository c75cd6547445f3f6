"""Pages without their pictures, whose drawing takes a fifth of a night: for tests that look at no picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from unittest.mock import patch


@contextmanager
def undrawn() -> Iterator[None]:
    """Leave every picture that is saved empty; figures of schedules are not even made."""
    from matplotlib.figure import Figure

    from pipelines.report import page, plots

    def blank(_: Figure, file: IO[bytes], **how: object) -> None:
        file.write(b"<svg/>")

    with (
        patch.object(Figure, "savefig", blank),
        patch.object(page, "_make_printable", lambda _: None),
        patch.object(plots, "figure_of_changes", lambda *given, **how: Figure()),
    ):
        yield
