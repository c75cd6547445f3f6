"""The example of docs/harm.md is what the simulator does."""

from __future__ import annotations

import re

from benchmarks.common.pages import HOUSE
from benchmarks.studies.picture import draw_example, example


def test_the_page_tells_the_waits_of_the_example() -> None:
    schedules = example()
    waits = [(each.jobs["start_s"] - each.jobs["submit_s"]) / 3600 for each in schedules.values()]
    table = re.findall(
        r"^\| `(\w+)`,.*\| ([\d.]+) \| ([\d.]+) \|$", (HOUSE / "docs" / "harm.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    rows = [row for row in zip(schedules["EASY, requested times"].jobs["user"], *waits, strict=True) if row[0] != "running"]
    assert table == [(user, f"{easy:.1f}", f"{harm:.1f}") for user, easy, harm in rows]
    assert draw_example(schedules).startswith(b"\x89PNG")
