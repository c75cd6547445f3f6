"""Replays of workloads against two real runs of each, in waits, starts and decisions.

``tests.golden.slurm.record`` at commit cb91bb7d made six on Slurm 22.05; those of ``newer`` are of 24.11. Bounds are what came out, a
little wider: they hold the model as it is.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.readers.slurm.slurmctld_log import read_phases
from pipelines.studies.parity import read_site_jobs
from sim.site.computed import with_computations
from sim.site.explained import decisions
from sim.site.parity import Open, causes, exports, fitted, open_replays, unexplained
from sim.site.replay import replay
from sim.slurm.phases import Phases, origin_of
from sim.slurm.site import Site

GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"
RUNS = sorted(path.stem for path in GOLDEN.glob("*.txt"))
FIRST = ("jobs-B", "limits-A", "mixed-A", "preemption-A", "tiers-B", "het24-B", "rel24-A", "resv24-B")
"""One of each kind."""
COVERED = ("mixed-A", "preemption-A")
"""Everything at once, and jobs that start more than once."""
OUTSIDE = {
    "jobs-B": "an administrator's hold fell on jobs that would have started in most replays, and its release changed other priorities",
}
"""Records that are no draw of the model's range over phases."""
WITHIN_5_S = {
    **{"jobs-A": 0.35, "jobs-B": 0.99, "limits-A": 0.99, "limits-B": 0.8, "outages-A": 0.95, "outages-B": 0.75},
    **{"preemption-A": 0.99, "preemption-B": 0.99, "tiers-A": 0.99, "tiers-B": 0.99},
    **{"mixed-A": 0.97, "mixed-B": 0.55, "het24-A": 0.99, "het24-B": 0.99, "qos24-A": 0.85, "qos24-B": 0.5},
    **{"rel24-A": 0.75, "rel24-B": 0.45, "resv24-A": 0.3, "resv24-B": 0.95},
}
"""Starts with the phases of the log that lie so close to the record, at least. What differs begins with milliseconds."""
NEWER = ("het24-A", "het24-B", "resv24-A", "resv24-B", "qos24-A", "qos24-B", "rel24-A", "rel24-B")
"""Runs of 24.11 with heterogeneous jobs, reservations made in the middle, two QOS a job and relative limits."""


def recorded(run: str, logged: bool = True) -> tuple[Site, pd.DataFrame, Phases]:
    """Return a run, its site as its files alone tell or with what its log adds, and the phases of the log."""
    folder = GOLDEN / "newer" if run in NEWER else GOLDEN
    log = folder / f"{run}.log.gz"
    site, jobs = read_site_jobs(folder / f"{run}.txt", folder / run, "UTC", log=log if logged else None)
    return site, jobs.table, read_phases(log, site, jobs.table)


@pytest.mark.slow
@pytest.mark.parametrize("run", [pytest.param(run, marks=() if run in FIRST else pytest.mark.thorough) for run in WITHIN_5_S])
def test_starts_with_the_phases_of_the_log_are_those_of_the_record(run: str) -> None:
    site, jobs, phases = recorded(run)
    ran = jobs["start_s"] >= 0
    starts = np.floor(replay(site, jobs, phases).start_s)
    assert (np.abs(starts - jobs["start_s"])[ran] <= 5).mean() >= WITHIN_5_S[run]


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    ["preemption-B", *(pytest.param(run, marks=pytest.mark.thorough) for run in ("limits-A", "mixed-B", "qos24-A", "rel24-B"))],
)
def test_starts_with_a_rotated_log_are_as_close_as_with_a_whole_one(run: str, tmp_path: Path) -> None:
    site, jobs, phases = recorded(run)
    folder = GOLDEN / "newer" if run in NEWER else GOLDEN
    whole = gzip.decompress((folder / f"{run}.log.gz").read_bytes()).decode().splitlines(keepends=True)
    (tmp_path / "rotated.log").write_text("".join(line for line in whole if "priority/multifactor: init" not in line))
    rotated = read_phases(tmp_path / "rotated.log", site, jobs)
    assert rotated.decay_s <= phases.decay_s <= rotated.decay_s + rotated.decay_spread_s
    close = [open_replays(site, jobs, 4, 0, None, each).summary()["within_5_s"] for each in (phases, fitted(site, jobs, rotated))]
    assert close[1] >= close[0] - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("run", [pytest.param(run, marks=() if run in COVERED else pytest.mark.thorough) for run in RUNS])
def test_the_recorded_mean_wait_lies_in_the_range_over_phases_and_decisions_agree(run: str) -> None:
    site, jobs, _ = recorded(run, logged=False)
    waits = open_replays(site, jobs, 20, seed=0).summary()
    assert (waits["low_s"] <= waits["recorded_mean_wait_s"] <= waits["high_s"]) == (run not in OUTSIDE)
    asked = decisions(site, jobs).summary()
    assert asked["decisions"] >= 0.85
    assert asked["decisions_extra"] <= 0.2


@pytest.mark.parametrize(
    "run", [pytest.param(run, marks=() if run in (*FIRST, "mixed-B") else pytest.mark.thorough) for run in (*RUNS, *NEWER)]
)
def test_at_the_passes_and_cycles_of_the_log_the_model_decides_as_slurmctld_did(run: str) -> None:
    folder = GOLDEN / "newer" if run in NEWER else GOLDEN
    log = folder / f"{run}.log.gz"
    site, jobs = read_site_jobs(folder / f"{run}.txt", folder / run, "UTC", log=log)
    assert site.known_release[:2] == ((24, 11) if run in NEWER else (22, 5))
    summary = decisions(site, jobs.runs, 0, read_phases(log, site, jobs.runs)).summary()
    assert summary["decisions"] > (0.969 if run in ("jobs-A", "het24-A", "qos24-A") else 0.985)
    assert summary["decisions_extra"] <= 0.013


@pytest.mark.thorough
def test_a_reservation_made_in_the_middle_counts_from_then_on() -> None:
    site, jobs, phases = recorded("resv24-B")
    sites = site, recorded("resv24-B", logged=False)[0]
    close = [(np.abs(np.floor(replay(each, jobs, phases).start_s) - jobs["start_s"]) <= 5).mean() for each in sites]
    assert close[0] > 0.9 > 0.5 > close[1]


@pytest.mark.parametrize(
    "run", [pytest.param(run, marks=() if run in ("mixed-A", "rel24-A") else pytest.mark.thorough) for run in FIRST]
)
def test_recorded_priorities_tell_when_they_were_computed(run: str) -> None:
    site, jobs, phases = recorded(run)
    assert site.computed_s == ()
    site = with_computations(site, jobs)
    off_s = (np.array(site.computed_s) - origin_of(jobs) - phases.decay_s + 30) % 60 - 30
    assert site.begins
    assert np.abs(off_s).max() <= 3
    assert with_computations(site, jobs.assign(priority=0)) is site, "nothing is known without them"


def test_a_wait_that_a_cancellation_ended_counts_in_the_record_and_in_replays() -> None:
    jobs = pd.DataFrame({"submit_s": 0, "start_s": [10, -1, 30, -1], "cancel_s": [-1, 50, -1, 60], "withdrawn_s": [50, 50, -1, -1]})
    replays = Open.of(jobs, np.array([[12.9, 40.0, 31.0, np.nan], [np.nan, np.nan, 29.0, np.nan]]))
    assert replays.wait_s.tolist() == [[12, 40, 31, 60], [50, 50, 29, 60]]
    assert replays.counted.tolist() == [True, True, True, False], "the last one starts nowhere"
    summary = replays.summary()
    assert (summary["jobs"], summary["never_started"], summary["recorded_mean_wait_s"]) == (2, 0, 30)
    assert summary["mean_wait_s"] == pytest.approx((12 + 40 + 31 + 50 + 50 + 29) / 6)


def test_nodes_that_stayed_free_without_a_reason_are_named() -> None:
    site, jobs, _ = recorded("outages-A", logged=False)
    bare, jobs = replace(site, reservations=()), jobs.assign(reservation="")
    replays = open_replays(bare, jobs, 8, seed=0)
    waits = unexplained(bare, jobs, replays).set_index("job_id")
    free = r"nodes n1, n2 stayed free from 05:33:\d\d to 05:35:00 while it waited and fitted: is reservations"
    assert re.match(free, waits["why"]["20"])
    table = causes(replays, waits, False, {"Flags": 0.5}).set_index("cause")
    assert table["explains_s"].is_monotonic_decreasing
    assert table["explains_s"]["nodes that were not there"] >= waits["beyond_s"]["20"]
    assert {"slurmctld.log, for --log", "Flags of sacct"} <= {*exports(table, most=9)}
    assert "phases of Slurm's clocks" not in causes(replays, waits, True, {})["cause"].tolist()
