"""The picture of docs/harm.md shows what the study found, and the example of docs/harm.md is what the simulator does."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from benchmarks.common.pages import HOUSE
from benchmarks.studies.expected_harm_tables import PLAIN
from benchmarks.studies.picture import METRICS, SHOWN, dots, draw, draw_example, example

PNG = b"\x89PNG"


def found(*, without: str = "") -> pd.DataFrame:
    """Return data as of the study: another policy, too, a section that is not drawn, and plain orders without a threshold."""
    rows = [
        {"trace": trace, "scheduler": scheduler, "predictor": predictor, "metric": metric, "relative": relative}
        | {"low": relative - 0.1, "high": relative + 0.1, "section": "plain" if scheduler in PLAIN else "headline"}
        for trace in ("B", "A")
        for number, (scheduler, predictor) in enumerate([*SHOWN, ("JustBF", "last2")])
        for metric, relative in zip(METRICS, (-0.1 * number, 0.01 * number, 2.5), strict=True)
        if predictor != without
    ]
    drawn = pd.DataFrame(rows)
    others = [drawn.assign(section="loads"), drawn[drawn["section"] == "plain"].assign(section="rivals")]
    return pd.concat([drawn, *(each.assign(relative=9.0) for each in others)], ignore_index=True)


def test_every_policy_of_the_picture_has_its_change_on_every_trace() -> None:
    made = dots(found())
    assert len(made) == 2 * len(SHOWN) * len(METRICS)
    assert list(made["trace"].unique()) == ["B", "A"]  # in the order of the study
    mine = made[(made["trace"] == "A") & (made["label"] == "Harm, quantile")].set_index("metric")
    assert mine["relative"].tolist() == pytest.approx([-0.5, 0.05, 2.5])
    assert mine.loc["AWF", ["low", "high"]].tolist() == pytest.approx([-0.05, 0.15])
    assert made[made["label"].str.startswith("SRF")]["relative"].max() == 2.5  # with its starvation threshold, not without
    assert draw(made).startswith(PNG)
    with pytest.raises(KeyError):
        dots(found(without="clairvoyant"))


def test_the_page_tells_the_waits_of_the_example() -> None:
    made = example()
    waits = [(each.jobs["start_s"] - each.jobs["submit_s"]) / 3600 for each in made.values()]
    table = re.findall(
        r"^\| `(\w+)`,.*\| ([\d.]+) \| ([\d.]+) \|$", (HOUSE / "docs" / "harm.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    rows = [row for row in zip(made["EASY, requested times"].jobs["user"], *waits, strict=True) if row[0] != "running"]
    assert table == [(user, f"{easy:.1f}", f"{harm:.1f}") for user, easy, harm in rows]
    assert draw_example(made).startswith(PNG)
