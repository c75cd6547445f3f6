"""Pages keep the tables that matter and lose no row: all cells are in the CSV beside them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.common.tables import cells, shortened, tables, write_page

PAGE = """# A question

What is asked.

## Here

Said before.

| | slowdown | vs EASY | AWF | vs EASY |
| --- | --- | --- | --- | --- |
| `EASY` | 1 | 0 | 2 | 0 |
| JustBF | **3** | +2 | 4 | +2 |

Waits, s:

| scheduler | wait |
| --- | --- |
| EASY | 5 |

## There

<details><summary>More</summary>

| scheduler | wait |
| --- | --- |
| EASY | 6 |

</details>
"""


def test_every_cell_is_kept_with_its_section_and_table():
    found = cells(PAGE)
    assert found["section"].value_counts().to_dict() == {"Here": 12, "There": 2}
    first = found[found["table"] == "1: Said before."].pivot(index="line", columns="column", values="value")
    assert first.loc[1].to_dict() == {"row": "JustBF", "slowdown": "3", "slowdown, vs EASY": "+2", "AWF": "4", "AWF, vs EASY": "+2"}


def test_a_table_that_goes_takes_its_announcement_and_its_heading():
    text = shortened(PAGE, lambda table: table.section == "Here" and table.number == 1)
    assert "Said before." in text
    assert "JustBF" in text
    for gone in ("Waits", "scheduler", "There", "details", "More"):
        assert gone not in text
    assert shortened(PAGE) == PAGE


def test_rows_can_be_chosen_from_a_table():
    text = shortened(PAGE, rows=lambda table, row: table.number != 1 or row[0] != "JustBF")
    assert "JustBF" not in text
    assert "`EASY`" in text


def test_a_page_and_its_data_are_written_together(tmp_path: Path):
    page = tmp_path / "page.md"
    write_page(page, PAGE, lambda table: False)
    assert not [*tables(page.read_text())]
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "data" / "page.csv", dtype=str), cells(PAGE).astype({"line": str}), check_dtype=False
    )
