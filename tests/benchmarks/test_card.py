"""A card of a study: what it shows, and what it refuses."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks.common.card import Card, made_before


def card(rows: int = 2, words: int = 1) -> Card:
    table = pd.DataFrame(
        {"trace": ["KTH-SP2"] * rows, "users": ["open"] * rows, "slowdown": [1.23456] * rows, "change": ["-3 %"] * rows}
    )
    made_by = "Made by `python -m benchmarks.studies.x --write` at commit 0123456789."
    return Card("Does it?", "It does. " * words, table, "Means:", "On others.", ["x.csv"], made_by, "x.png", "Waits")


def test_a_card_shows_all_that_it_has():
    text = card().markdown()
    assert text.startswith("# Does it?\n\nIt does.")
    for part in ("![figure](x.png)\n\n*Waits*", "**Where it fails.** On others.", "[data/x.csv](data/x.csv)"):
        assert part in text
    assert "| --- | --- | ---: | ---: |\n| KTH-SP2 | open | 1.235 | -3 % |" in text


@pytest.mark.parametrize("asked", [{"rows": 11}, {"rows": 0}, {"words": 180}], ids=str)
def test_a_card_that_is_too_long_is_refused(asked, tmp_path):
    with pytest.raises(ValueError, match="where a card"):
        card(**asked).write("x", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_card_of_kept_data_names_the_commit_that_made_them(tmp_path):
    card().write("x", tmp_path)
    assert made_before("x", tmp_path) == card().made_by
    (tmp_path / "y.md").write_text("# No command")
    with pytest.raises(ValueError, match=r"y\.md"):
        made_before("y", tmp_path)
