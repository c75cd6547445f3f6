"""``queuecast policies`` as a user meets it: tables, page, interrupted and taken up again, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pipelines.workflows.policy_study as workflow
from features.clock import WEEK_S
from pipelines.storage.journal import Journal
from tests.support.command import queuecast
from tests.support.workloads import crowd

WEEKS, JOBS = 13, 25
SMALL = ("--points", "4", "--budget", "12", "--replicates", "2", "--week", "3")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crowd in each of some weeks, as an SWF file."""
    rng, lines = np.random.default_rng(2), ["; MaxProcs: 64"]
    for week in range(WEEKS):
        load = crowd(rng, JOBS, origin_s=week * WEEK_S + (week > 0) * 1000)
        for submit, runtime, procs, requested in zip(load.submit, load.runtime, load.procs, load.requested, strict=True):
            lines.append(f"{len(lines)} {submit} -1 {runtime} {procs} -1 -1 {procs} {requested} -1 1 1 1 -1 -1 -1 -1 -1")
    path = tmp_path_factory.mktemp("traces") / "crowd.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_an_interrupted_study_goes_on_and_ends_as_one_that_was_not(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, page = ("policies", str(trace), *SMALL), tmp_path / "page.html"
    whole = queuecast(*asked, "--out", str(tmp_path / "whole"), "--report", str(page), home=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert "12 windows" in whole.stderr
    assert "37 of 37 steps" in whole.stderr
    for words in ("w_greedy", "probability of beating SAF", "SAF is the best pure policy"):
        assert words in whole.stdout
    html = page.read_text()
    assert html.count("<img") == 6, "the transfer, the weeks, the best pure ones, the boxes, the search and the landscape"
    assert "weeks 1–6 for training, 7–12 for testing" in html

    written: list[object] = []
    write = Journal.write

    def interrupted(self: Journal, key: object, value: object) -> None:
        write(self, key, value)
        written.append(key)
        if len(written) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "write", interrupted)
    stopped = queuecast(*asked, "--out", str(tmp_path / "parts"), home=tmp_path)
    assert stopped.returncode == 130
    assert "run the same command to resume" in stopped.stderr
    assert (tmp_path / "parts.journal").exists()
    other = queuecast(*asked, "--seed", "7", "--out", str(tmp_path / "parts"), home=tmp_path)
    assert other.returncode == 2
    assert "is the journal of another study (of other settings); give --restart to throw it away, or another --out" in other.stderr
    resumed = queuecast(*asked, "--out", str(tmp_path / "parts"), home=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert len(written) == 37
    assert resumed.stdout == whole.stdout
    assert not (tmp_path / "parts.journal").exists()
    one, both = (workflow.read_study(tmp_path / name) for name in ("whole", "parts"))
    assert one.facts == both.facts
    assert one.settings.split.testing == tuple(range(7, 13))
    for name, table in one.tables.by_name().items():
        pd.testing.assert_frame_equal(both.tables.by_name()[name], table, check_exact=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--training", "1-3", "--testing", "3-5"), "weeks 3 are for training and for testing"),
        (("--training", "40-50"), "no weeks of the trace is for training: those with jobs are 1 to 12"),
        (("--training", "5-3"), "'5-3': give numbers and spans of them, as in 28-64 or 1-5,7"),
        (("--week", "30"), "no landscape of weeks 30: those with jobs are 1 to 12"),
        (("--windows", "months", "--last", "0"), "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_studied_is_refused_in_one_line(trace: Path, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    done = queuecast("policies", str(trace), *options, "--out", str(tmp_path / "out"), home=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out.journal").exists()
