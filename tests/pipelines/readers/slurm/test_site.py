"""Files of a Slurm site and slurmctld's log: what a folder and a log give, and how damaged ones are refused."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from pipelines.readers.slurm.jobs import read_slurm_jobs
from pipelines.readers.slurm.site import is_site, load_site
from pipelines.readers.slurm.slurmctld_log import read_phases, with_log
from sim.slurm.files import read_site
from sim.slurm.phases import origin_of
from tests.conftest import SHARED, needs_shared
from tests.support.refusals import refusal

CONF = "ClusterName=here\nNodeName=n[1-2] CPUs=8\nPartitionName=main Nodes=ALL\n"
EVENTS = "NodeName|TimeStart|TimeEnd|State\nn1|2026-03-01T10:00:00|2026-03-01T11:00:00|DRAIN\n"
SITE = read_site({"slurm.conf": CONF + "SchedulerParameters=bf_interval=10,sched_interval=20\n"}, "site")
BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "slurm.conf").write_text(CONF)
    (tmp_path / "site" / "events.txt").write_text(EVENTS)
    return tmp_path / "site"


def test_a_folder_is_a_site_and_slurm_conf_alone_is_one(folder: Path) -> None:
    of_folder, alone = (load_site(place, "Europe/Berlin") for place in (folder, folder / "slurm.conf"))
    assert (of_folder.name, len(of_folder.nodes), of_folder.outages[0].start_s) == ("here", 2, int(BEGIN.timestamp()) - 3600)
    assert (alone.nodes, alone.outages) == (of_folder.nodes, ())
    assert [is_site(place) for place in (folder, folder / "slurm.conf", "two.toml")] == [True, True, False]


def test_what_is_no_site_is_refused_by_name_in_one_line(folder: Path) -> None:
    (folder / "other.conf").write_text(CONF)
    assert refusal(load_site, folder / "other.conf").startswith(f"{folder / 'other.conf'}: is not a site: ")
    with pytest.raises(InputError, match=r"gone: No such file or directory"):
        load_site(folder / "gone")
    with pytest.raises(InputError, match=r"unknown time zone 'Berlin'"):
        load_site(folder, "Berlin")


def jobs(*submitted: int) -> pd.DataFrame:
    submit = [int(BEGIN.timestamp()) + second for second in submitted]
    numbers = range(1, len(submit) + 1)
    ends = [second + 100 for second in submit]
    named = {"job_id": [str(each) for each in numbers], "partition": "main", "priority": 100}
    return pd.DataFrame(
        {**named, "group": numbers, "submit_s": submit, "start_s": [second + 1 for second in submit], "end_s": ends}
    )


def log(*events: tuple[float, str]) -> str:
    stamps = [(BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] for second, _ in events]
    return "".join(f"[{stamp}] {text}\n" for stamp, (_, text) in zip(stamps, events, strict=True))


TURN = "debug:  sched: Running job scheduler for default depth."
FULL = "debug:  sched: Running job scheduler for full queue."
CYCLE = "debug:  sched/backfill: _attempt_backfill: beginning"
LOG = log(
    *((second, "debug:  priority/multifactor: init: Priority MULTIFACTOR plugin loaded") for second in (-9, -5, 30)),
    *((second * 1.004 + 0.25, TURN) for second in range(40)),
    *((second * 10.004 + 3.5, CYCLE) for second in range(6)),
    (15.4, FULL),
    (2.75, "_slurm_rpc_submit_batch_job: JobId=1 InitPrio=100 usec=9"),
    (3.25, "sched: Allocate JobId=1 NodeList=n1 #CPUs=8 Partition=main"),
    (23.5, "_job_complete: JobId=1 done"),
)


def test_phases_come_from_when_clocks_turned_and_jobs_were_submitted(tmp_path: Path) -> None:
    (tmp_path / "slurmctld.log").write_text(LOG + "[2026-13-45T10:00:00.000] cut\nother words\n")
    (tmp_path / "slurmctld.log.gz").write_bytes(gzip.compress(LOG.encode()))
    table = jobs(2, 9)
    for name in ("slurmctld.log", "slurmctld.log.gz"):
        phases = read_phases(tmp_path / name, SITE, table)
        begin = int(BEGIN.timestamp()) - origin_of(table)
        assert phases.turn_s == pytest.approx(begin + 0.25, abs=0.01)
        assert phases.cycle_s == phases.cycles_s[0] == pytest.approx(begin + 3.5, abs=0.01)
        np.testing.assert_allclose(np.diff(phases.cycles_s), 10.004, atol=1e-3)
        assert phases.turn_length_s == pytest.approx(1.004, abs=1e-3)
        np.testing.assert_allclose(phases.parts_s, [0.75, 0.5])
        np.testing.assert_allclose(phases.runtimes_s, [20.25, np.nan])
        np.testing.assert_allclose(phases.starts_s, [begin + 3.25, np.nan])
        assert phases.decay_s == pytest.approx((begin - 5) % 300), "slurmctld began anew before the jobs, and once more after them"
        assert phases.full_s == pytest.approx(15.4 - 2 - 20)  # that of 15.4 s, one interval before
    assert read_phases(tmp_path / "slurmctld.log", SITE, jobs(-3598), "Europe/Berlin").turn_s == pytest.approx(
        int(BEGIN.timestamp()) - 3600 - origin_of(jobs(-3598)) + 0.25, abs=0.01
    )


@pytest.mark.parametrize(
    ("content", "zone", "error"),
    [
        (b"", "UTC", "shows no scheduling pass: Slurm logs them with SlurmctldDebug=debug"),
        (log((1, "sched: Allocate JobId=1")).encode(), "UTC", "shows no scheduling pass: Slurm logs them"),
        (
            LOG.encode(),
            "Europe/Berlin",
            "shows no scheduling pass in the time of the accounting: do the two cover the same time",
        ),
        (gzip.compress(LOG.encode())[:-30], "UTC", "truncated: the gzip data end before their end mark"),
    ],
)
def test_a_log_that_shows_nothing_of_the_time_is_refused_in_one_line(content: bytes, zone: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(content)
    assert refusal(read_phases, tmp_path / "log.gz", SITE, jobs(0), zone).startswith(f"{tmp_path}/log.gz: {error}")


def test_a_log_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.log: no such file"):
        read_phases(tmp_path / "gone.log", SITE, jobs(0))


def test_passes_at_turns_are_told_from_others_where_the_clock_drifts_unevenly(tmp_path: Path) -> None:
    work_s = np.where(np.arange(60) // 20 == 1, 0.013, 0.002)  # twenty busy seconds
    turns_s = 0.25 + np.concatenate(([0.0], np.cumsum(1 + work_s)))
    direct_s = np.array([12.1, 30.77, 44.0])
    (tmp_path / "log").write_text(log(*((second, TURN) for second in sorted([*turns_s, *direct_s])), (3.5, CYCLE)))
    table = jobs(2, 9)
    phases, begin = read_phases(tmp_path / "log", SITE, table), int(BEGIN.timestamp()) - origin_of(table)
    np.testing.assert_allclose(phases.passes_s, begin + turns_s, atol=2e-3)
    np.testing.assert_allclose(phases.direct_s, begin + direct_s, atol=2e-3)
    assert phases.turn_length_s == pytest.approx(1.002, abs=1e-3)


def test_nodes_that_a_pass_takes_sooner_than_usual_had_answered(tmp_path: Path) -> None:
    ends = (5.0, "sched: Allocate JobId=1 NodeList=n[1-2] #CPUs=8 Partition=main"), (8.0, "_job_complete: JobId=1 done")
    taken = (8.003, "sched: Allocate JobId=2 NodeList=n2 #CPUs=8 Partition=main")
    (tmp_path / "log").write_text(LOG + log(*ends, taken))
    answers_s = read_phases(tmp_path / "log", SITE, jobs(2, 9)).answers_s
    assert answers_s is not None
    np.testing.assert_allclose(answers_s, [0.002, np.nan], atol=1e-6)


def test_a_preempted_run_ends_at_the_line_that_says_so(tmp_path: Path) -> None:
    second = (5.0, "sched: Allocate JobId=2 NodeList=n2 #CPUs=8 Partition=main")
    stop = (5.0, "preempted JobId=2 has been requeued to reclaim resources for JobId=1")
    again = (30.0, "sched: Allocate JobId=2 NodeList=n2 #CPUs=8 Partition=main"), (40.0, "_job_complete: JobId=2 done")
    (tmp_path / "log").write_text(LOG + log(second, stop, *again))
    table = jobs(2, 4, 29).assign(job_id=["1", "2", "2"])
    phases, begin = read_phases(tmp_path / "log", SITE, table), BEGIN.timestamp() - origin_of(table)
    assert phases.ends_s is not None
    np.testing.assert_allclose(phases.ends_s - begin, [23.5, 5.0, 40.0], atol=1e-3)


def test_starts_of_one_millisecond_keep_the_order_of_their_lines(tmp_path: Path) -> None:
    starts = ((5.0, f"sched: Allocate JobId={job} NodeList=n{job} #CPUs=8 Partition=main") for job in (2, 1))
    (tmp_path / "log").write_text(LOG + log(*starts))
    table = jobs(2, 9).assign(start_s=int(BEGIN.timestamp()) + 5)
    first, second = read_phases(tmp_path / "log", SITE, table).starts_s
    assert 0 < first - second < 0.001


@needs_shared
def test_a_real_log_shows_the_clocks_that_the_site_is_set_to() -> None:
    site = load_site(SHARED / "slurm" / "sites" / "pair")
    table = read_slurm_jobs(SHARED / "slurm" / "pair-A.sacct.txt", site).table
    phases = read_phases(SHARED / "slurm" / "pair-A.slurmctld.log.gz", site, table)
    assert phases.turn_length_s == pytest.approx(1.0, abs=0.01)
    assert np.median(np.diff(phases.cycles_s)) == pytest.approx(10.0, abs=0.05)
    assert len(phases.parts_s) == 97


def test_a_log_tells_the_release_when_reservations_were_made_and_nodes_ordered_to_drain(tmp_path: Path) -> None:
    begin = int(BEGIN.timestamp())
    (tmp_path / "slurmctld.log").write_text(
        log(
            (0, "slurmctld version 24.11.5 started on cluster here(1)"),
            (10, "sched: Created reservation=course accounts=physics nodes=n1 start=2026-03-01T10:30:00"),
            (20.75, "update_node: node n1 state set to DRAINING"),
            (30, "update_node: node n2 state set to DOWN"),
            (40, "update_node: node n2 state set to IDLE"),
        )
    )
    kept = "ReservationName=course StartTime=2026-03-01T10:30:00 EndTime=2026-03-01T11:00:00 Nodes=n1\n"
    event = "NodeName|TimeStart|TimeEnd|State\nn1|2026-03-01T10:02:00|2026-03-01T10:05:00|DRAIN\n"
    site = with_log(
        tmp_path / "slurmctld.log", read_site({"slurm.conf": CONF, "reservations.txt": kept, "events.txt": event}, "site")
    )
    assert (site.release, site.reservations[0].created_s) == ((24, 11, 5), begin + 10)
    assert [(each.node, each.start_s - begin, each.end_s - begin, each.down) for each in site.outages] == [
        ("n1", 20.75, 300, False),
        ("n2", 30, 40, True),
    ], "a job that started earlier in the second of the order did so on a free node"


@needs_shared
def test_the_log_of_heterogeneous_jobs_tells_their_submissions_and_runtimes() -> None:
    accounting, machine, path = (
        SHARED / "slurm" / name for name in ("gpus24h-A.sacct.txt", "sites/gpus24h-A", "gpus24h-A.slurmctld.log.gz")
    )
    site = with_log(path, load_site(machine))
    table = read_slurm_jobs(accounting, site).table
    phases, together = read_phases(path, site, table), (table["het"] >= 0).to_numpy()
    assert (site.release, together.sum()) == ((24, 11, 5), 4)
    np.testing.assert_allclose(phases.parts_s[together], [0.408, 0.408, 0.51, 0.51], atol=0.001)
    assert phases.runtimes_s is not None
    assert np.isfinite(phases.runtimes_s[together]).all()
