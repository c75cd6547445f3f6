"""Tables of studies: every cell is kept beside the card, and a part written again replaces its own rows only."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.common.tables import cells, kept_table, write_data

PAGE = """# Page

## Here

Said
**before**.

| | slowdown | vs EASY | AWF | vs EASY |
| --- | --- | --- | --- | --- |
| `EASY` | 1 |  | **2** |  |
| JustBF | 3 | +2 | 4 | +2 |
| JustBF |  | | 5 | |

Waits, of which there is a long announcement that says more than the name of a table should hold,
so that it is not taken for one, although it stands right above the table and ends in a colon:

| scheduler | wait |
| --- | --- |
| EASY | 6 |

## There

| scheduler | wait |
| --- | --- |
| EASY | 7 |
"""


def test_every_cell_is_kept_with_its_section_and_table():
    rows = cells(PAGE)
    assert rows["section"].value_counts().to_dict() == {"Here": 17, "There": 2}
    assert rows["table"].unique().tolist() == ["1: Said before.", "2", "1"]
    first = kept_table(rows, "Here")
    assert first.loc[1].to_dict() == {"row": "JustBF", "slowdown": "3", "slowdown, vs EASY": "+2", "AWF": "4", "AWF, vs EASY": "+2"}
    assert list(first) == ["row", "slowdown", "slowdown, vs EASY", "AWF", "AWF, vs EASY"]
    assert first["AWF"].tolist() == ["2", "4", "5"]
    assert kept_table(rows, "Here", "2").to_numpy().tolist() == [["EASY", "6"]]
    assert kept_table(cells(PAGE, "part"), "part: There").to_numpy().tolist() == [["EASY", "7"]]
    with pytest.raises(ValueError, match="no table"):
        kept_table(rows, "Here", "3")


def test_parts_written_again_replace_their_own_rows_only(tmp_path: Path):
    (tmp_path / "data").mkdir()
    table = "| a | b |\n| --- | --- |\n| 1 | {} |"
    write_data(tmp_path / "page.md", {"one": table.format("x"), "two": f"### Inside\n\n{table.format('y')}"})
    write_data(tmp_path / "page.md", {"two": f"### Inside\n\n{table.format('z')}"})
    rows = pd.read_csv(tmp_path / "data" / "page.csv")
    assert rows.loc[rows["column"] == "b", ["section", "value"]].to_numpy().tolist() == [["one", "x"], ["two: Inside", "z"]]
