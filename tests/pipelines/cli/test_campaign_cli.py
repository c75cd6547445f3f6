"""``queuecast campaign`` as a user meets it: killed and taken up again, its journal, its tables, its page."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from pipelines.lake.files import read_parquet
from pipelines.readers.read import read_trace
from pipelines.studies.campaigns import KIND, Journal, Run, identity, resumable_campaign
from queuecast import results
from sim import Campaign, run_campaign
from sim.campaigns.points import Point
from sim.campaigns.windows import Windows, split_windows
from sim.metrics.verdict import predictions
from sim.policy import Policy
from tests.support.command import queuecast
from tests.support.process import python
from tests.support.workloads import weekly_crowds

pytestmark = pytest.mark.usefixtures("undrawn_pictures")
WEEKS, JOBS = 7, 40


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crowd in each of seven weeks, as an SWF file."""
    lines = ["; MaxProcs: 64"]
    for number, submit, runtime, procs, requested, user in weekly_crowds(WEEKS, JOBS):
        lines.append(f"{number} {submit} -1 {runtime} {procs} -1 -1 {procs} {requested} -1 1 {user} 1 -1 -1 -1 -1 -1")
    path = tmp_path_factory.mktemp("traces") / "crowd.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def workload(trace: Path) -> CleanTrace:
    return clean(read_trace(str(trace)))


@pytest.fixture
def windows(workload: CleanTrace) -> Windows:
    return split_windows(workload.jobs, "weeks")


@pytest.fixture
def easy_id(workload: CleanTrace, windows: Windows) -> dict:
    """What identifies a campaign of EASY alone."""
    return identity(workload, Campaign(schedulers=("EASY",)), windows)


def without_times(path: Path) -> tuple[pd.DataFrame, dict]:
    table, metadata = read_parquet(path, kind=KIND)
    return table.drop(columns="simulate_s"), metadata


def kept(journal: Path) -> list[list[dict]]:
    """Return the rows of each finished point of a journal."""
    return [json.loads(line)[-1] for line in journal.read_text().splitlines()[1:]]


KILLED = """
import os, signal
from pipelines.cli import main
from pipelines.studies.campaigns import Journal
real, points = Journal.write, []
def write(*arguments):
    real(*arguments)
    points.append(arguments)
    if len(points) == 15:
        os.kill(os.getpid(), signal.SIGKILL)
Journal.write = write
main()
"""
"""A command that is killed as soon as its journal holds fifteen points, of 36."""


@pytest.mark.slow
def test_killed_and_taken_up_again_the_results_are_the_same_to_the_last_byte(trace: Path, tmp_path: Path) -> None:
    seeds = [word for seed in range(3) for word in ("--seed", str(seed))]
    arguments = ["campaign", str(trace), "--windows", "weeks", "--scheduler", "EASY", "--scheduler", "SAF-JustBF", *seeds]
    arguments += ["--predictor", "last2", "--correction", "tsafrir", "--tau", "10", "--tau", "60", "--workers", "2", "--shake"]
    out, undisturbed = tmp_path / "killed.parquet", tmp_path / "undisturbed.parquet"
    journal = tmp_path / "killed.parquet.journal"

    killed = python(["-c", KILLED, *arguments, "--out", str(out)], env={**os.environ, "QUEUECAST_HOME": str(tmp_path)})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not out.exists()
    before = [row["simulate_s"] for rows in kept(journal) for row in rows]
    assert len(before) == 2 * 15  # a row for each tau

    resumed = queuecast(*arguments, "--out", str(out), home=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert not journal.exists()
    done = queuecast(*arguments, "--out", str(undisturbed), home=tmp_path)
    assert done.returncode == 0, done.stderr
    (ours, our_metadata), (theirs, their_metadata) = without_times(out), without_times(undisturbed)
    pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    assert our_metadata == their_metadata
    assert resumed.stdout == done.stdout
    # what was done before was not done again: its measured times are those of the first run
    assert set(before) <= set(read_parquet(out, kind=KIND)[0]["simulate_s"])


def test_the_journal_of_another_campaign_is_refused_saying_what_differs(
    workload: CleanTrace, windows: Windows, tmp_path: Path
) -> None:
    out = tmp_path / "out.parquet"
    first, other = Campaign(schedulers=("EASY",)), Campaign(schedulers=("EASY", "List"), taus_s=(60.0,))
    with Journal(out, identity(workload, first, windows)) as journal:
        journal.write(("crowd", Point(1, Policy())), [])
    with pytest.raises(InputError, match=r"another campaign \(it differs in schedulers, taus_s\); give --restart"):
        resumable_campaign(out, [Run(workload, other, windows)], map_points=map)
    assert kept(journal.path) == [[]]
    resumable_campaign(out, [Run(workload, other, windows)], map_points=map, restart=True)
    assert out.exists()
    assert not journal.path.exists()


def test_other_jobs_and_other_predictions_make_another_campaign(workload: CleanTrace, windows: Windows) -> None:
    from dataclasses import replace

    from models.runtime.protocol import TablePredictor

    def identity_of(jobs: pd.DataFrame, factor: float) -> dict:
        table = TablePredictor("mine", lambda jobs: factor * jobs["requested_s"].to_numpy())
        return identity(replace(workload, jobs=jobs), Campaign(schedulers=("EASY",), predictors=(table,)), windows)

    same = identity_of(workload.jobs, 1.0)
    assert identity_of(workload.jobs.copy(), 1.0) == same
    assert identity_of(workload.jobs, 0.5)["predictions"] != same["predictions"]
    assert identity_of(workload.jobs.assign(runtime_s=workload.jobs["runtime_s"] + 1), 1.0)["jobs"] != same["jobs"]
    assert json.loads(json.dumps(same)) == same


@pytest.mark.parametrize("content", [b"precious", b'{"precious": 1}\n', b"[1]\n"])
def test_a_journal_that_is_none_is_left_alone(content: bytes, workload: CleanTrace, windows: Windows, tmp_path: Path) -> None:
    journal = tmp_path / "out.parquet.journal"
    journal.write_bytes(content)
    with pytest.raises(InputError, match="is not the journal of a campaign; give --restart"):
        resumable_campaign(tmp_path / "out.parquet", [Run(workload, Campaign(), windows)], map_points=map)
    assert journal.read_bytes() == content


def test_a_journal_may_be_taken_up_again_any_number_of_times_and_without_a_point_is_nobodys(easy_id: dict, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with Journal(out, {}):
        pass
    assert not [*tmp_path.iterdir()]
    asked = [("crowd", Point(number, Policy())) for number in (1, 2, 3)]
    for before, point in enumerate(asked):
        with Journal(out, easy_id) as journal:
            assert list(journal.done) == asked[:before]
            journal.write(point, [{"mean_wait_s": 0.1 * before}])
    with Journal(out, easy_id) as journal:
        assert journal.done == {point: [{"mean_wait_s": 0.1 * number}] for number, point in enumerate(asked)}


def test_a_failed_point_leaves_the_last_results_and_what_is_done(workload: CleanTrace, windows: Windows, tmp_path: Path) -> None:
    from models.runtime.protocol import TablePredictor

    out = tmp_path / "out.parquet"
    out.write_text("the last results")
    seconds = workload.jobs["requested_s"].to_numpy(np.float64).copy()
    seconds[-1] = np.inf
    broken = TablePredictor("broken", lambda jobs: seconds)
    with pytest.raises(
        InputError, match=r"EASY / broken / requested, per-second, seed 0, window 6: predictor broken: predicts inf"
    ):
        resumable_campaign(out, [Run(workload, Campaign(predictors=("requested", broken)), windows)], map_points=map)
    assert out.read_text() == "the last results"
    assert len(kept(tmp_path / "out.parquet.journal")) == 6 + 5


@pytest.mark.slow
def test_the_command_says_what_it_left_out_and_writes_what_run_campaign_gives(
    workload: CleanTrace, windows: Windows, trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "out.parquet"
    asked = "--scheduler EASY --scheduler SAF-EASY-SPF --predictor requested --predictor last2 --windows weeks"
    asked += " --starvation none --starvation 600 --tau 10 --tau 60"
    done = queuecast("campaign", str(trace), *asked.split(), "--out", str(out), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 windows of 240 jobs (weeks); jobs dropped: first-window 40; judged by submission" in done.stderr
    table, metadata = without_times(out)
    same = Campaign(
        schedulers=("EASY", "SAF-EASY-SPF"), predictors=("requested", "last2"), starvation_s=(None, 600), taus_s=(10.0, 60.0)
    )
    alone = run_campaign(workload.jobs, same, procs=64, windows=windows, trace="crowd").drop(columns="simulate_s")
    pd.testing.assert_frame_equal(table, alone, check_exact=True)
    assert metadata["dropped"] == {"first-window": 40}
    assert done.stdout.count("means over 6 windows (weeks)") == 4  # a table for each threshold and tau
    assert "starvation after 600 s" in done.stdout
    read_back = results(out)
    pd.testing.assert_frame_equal(read_back.drop(columns="simulate_s"), alone, check_exact=True)
    assert all(line in done.stdout.splitlines() for line in read_back.verdict.splitlines())

    for name in ("requested", "last2"):
        assert f"SAF-EASY-SPF / {predictions(name)}" in done.stdout


@pytest.mark.slow
def test_a_registered_model_that_has_seen_the_jobs_is_refused(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(spec: str, submitted: pd.DataFrame, *_: object) -> pd.DataFrame:
        assert spec == "runtime-crowd@champion"
        half_s = submitted["requested_s"].to_numpy() // 2 + 1
        return pd.DataFrame({"predicted_s": half_s, "predicted_80_s": half_s * 1.5, "snapshot_age_s": np.arange(len(half_s)) - 7})

    monkeypatch.setattr("pipelines.lake.registry.predict_registered", answered)
    out = tmp_path / "results.parquet"
    command = ["campaign", str(trace), "--predictor", "requested", "--correction", "conditional(when=pass)", "--out", str(out)]
    refused = queuecast(*command, "--predictor", "registry:runtime-crowd", home=tmp_path)
    assert refused.returncode == 2
    assert "registry:runtime-crowd: has learned from the replayed jobs" in refused.stderr.splitlines()[-1]
    assert "its history was taken after 7 of the" in refused.stderr
    assert not out.exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_suite_pools_its_traces_and_writes_tables(trace: Path, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"crowd-{number}.swf").write_text(trace.read_text().replace("MaxProcs: 64", f"MaxProcs: {64 + 8 * number}"))
    file = tmp_path / "mine.toml"
    file.write_text(
        'traces = ["crowd-0.swf", "crowd-1.swf", "crowd-2.swf"]\nschedulers = ["EASY", "EASY-SJBF", "List"]\nloads = [1.0, 1.2]\n'
    )
    out, table = tmp_path / "out.parquet", tmp_path / "table.md"
    writes = "--out", str(out), "--table", str(table)
    done = queuecast("campaign", "--suite", str(file), "--windows", "weeks", *writes, home=tmp_path)
    assert done.returncode == 0, done.stderr
    rows, _ = read_parquet(out, kind=KIND)
    assert sorted(rows["trace"].unique()) == sorted(f"crowd-{n}{load}" for n in range(3) for load in ("", " (load 1.2)"))
    schedulers, lone = ("--scheduler", "EASY", "--scheduler", "List"), tmp_path / "alone.parquet"
    alone = queuecast(
        "campaign", str(tmp_path / "crowd-1.swf"), "--windows", "weeks", *schedulers, "--out", str(lone), home=tmp_path
    )
    assert alone.returncode == 0, alone.stderr
    same = read_parquet(lone, kind=KIND)[0]
    mine = rows[(rows["trace"] == "crowd-1") & rows["scheduler"].isin(["EASY", "List"])]
    assert mine["mean_wait_s"].tolist() == same["mean_wait_s"].tolist()
    assert "mine: geometric means over 3 traces" in done.stdout
    assert "mean ranks by slowdown" in done.stdout
    assert table.read_text().count("| policy |") == 2
