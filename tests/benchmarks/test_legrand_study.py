"""The page about Legrand et al. (2018): what is put beside the published numbers, and what is said to agree."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from benchmarks.common.tables import tables
from benchmarks.papers import legrand2018_page as page
from benchmarks.papers.legrand2018 import Source
from benchmarks.papers.legrand2018_pictures import stacked, titled
from pipelines.workflows.policy_study import Study
from sim.search.pure import PURE, THRESHOLDS
from sim.search.study import Settings, Tables
from sim.search.transfer import RECORDED, Split
from tests.support.arriving import arriving

VALUES = {name: 10.0 + place for place, name in enumerate(("SAF", "w*", "w_train", "w_greedy", "w_test", *PURE))}
WEEKS = range(1, 13)


@pytest.fixture(scope="module")
def study() -> Study:
    """A study of twelve weeks in which each policy has one value, twice as much with a tau of 10."""
    replays = pd.DataFrame(
        {"seed": seed, "week": week, "policy": name, "tau_s": tau_s, "mean_bounded_slowdown": value * (2 if tau_s < 60 else 1)}
        for seed in (RECORDED, 0, 1)
        for week in WEEKS
        for tau_s in (10.0, 60.0)
        for name, value in VALUES.items()
    ).assign(max_wait_s=60)
    once = replays[(replays["seed"] == RECORDED) & replays["policy"].isin(PURE)]
    pure = pd.concat([once.assign(starvation_s=each) for each in THRESHOLDS]).astype({"starvation_s": "Int64"})
    none = pd.DataFrame()
    settings = Settings(Split(tuple(WEEKS[:6]), tuple(WEEKS[6:])))
    facts = {"settings": {**vars(settings), "split": vars(settings.split)}, "windows": list(WEEKS)}
    return Study(facts, Tables(pure, none, none, replays, none, none))


def test_ratios_to_fcfs_stand_beside_the_published_ones(study: Study) -> None:
    paper = {name: VALUES[name] / VALUES["FCFS"] * 100.0 for name in PURE} | {"LAF": 500.0}
    columns = ("no threshold", "200000 s", "72000 s")
    told = pd.DataFrame(
        [{"policy": name, "column": column, "published": value} for column in columns for name, value in paper.items()]
    )
    text = "\n".join(page.thresholds(study, told))
    found = [text.splitlines()[each.start : each.stop] for each in tables(text)]
    assert len(found) == 3
    assert f"| SAF | {paper['SAF'] / 100:.3f} | {paper['SAF'] / 100:.3f} | {paper['SAF'] / 100:.3f} |" in found[0]
    assert [line.endswith("| yes |") for line in found[1] if line.startswith(("| SPF", "| LAF"))] == [True, False]
    assert "| sum of FCFS | 100 | 360 | 180 |" in found[0]
    assert "ratios differ by 0.000 in the median and 3.533 at most (LAF)" in text


def test_table_2_says_whether_the_changes_to_saf_agree(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["w*", "w_train", "w_greedy", *(name for name in PURE if name != "LCFS")]
    rows = [
        {"policy": name, "column": f"{part} weeks", "published": VALUES[name] * (2.0 if name == "w_train" else 1.0)}
        for name in names
        for part in ("training", "testing")
    ]
    monkeypatch.setattr(page, "published", lambda shared, table: pd.DataFrame(rows))
    lines = page.table_2(study, Path()).splitlines()
    by_name = {line.split(" | ")[0].strip("| "): line for line in lines[2:]}
    assert len(by_name) == len(names)
    own = VALUES["SAF"] * 6
    assert by_name["SAF"].startswith(
        f"| SAF | {VALUES['SAF']:.0f} | {VALUES['SAF']:.0f} | {2 * own:.0f} | {2 * own:.0f} | {own:.0f} | {own:.0f} |"
    )
    assert "| yes |" in by_name["SPF"]
    assert "| no |" in by_name["w_train"]
    assert "below 0.1 %" in by_name["LAF"]


def test_pictures_are_stacked_under_the_name_of_their_trace() -> None:
    def png(width: int, height: int) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(buffer, format="png")
        return buffer.getvalue()

    whole = Image.open(io.BytesIO(stacked([titled("T", png(320, 50)), png(400, 30)])))
    assert whole.size == (400, 48 + 50 + 30)
    assert np.asarray(whole)[47:98, :320].min() == 0
    assert (np.asarray(whole)[60, 330:] == 255).all()


def test_table_1_is_written_into_a_page_that_is_there_and_changes_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    path, data = tmp_path / "legrand-2018.md", tmp_path / "data" / "legrand-2018.csv"
    path.write_text("# Head\n\n## The claims on KTH-SP2\n\nas they were\n", encoding="utf-8")
    data.write_text("section,table,line,column,value\nThe claims on KTH-SP2,1,0,claim,kept\n", encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", path)
    monkeypatch.setattr(page, "STUDIES", tmp_path)
    monkeypatch.setattr(Source, "read", lambda self, shared: arriving(jobs=500))
    for _ in range(2):
        page.write_workloads(tmp_path)
        text, rows = path.read_text(encoding="utf-8"), pd.read_csv(data)
        assert text.count("## Table 1: the workloads") == text.count("the paper | 27,670 | 8,579") == 1
        assert text.startswith("# Head\n\n## Table 1")
        assert text.endswith("\n\n## The claims on KTH-SP2\n\nas they were\n")
        assert rows["value"].tolist().count("kept") == rows["value"].tolist().count("27,670") == 1
