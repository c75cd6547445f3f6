"""Simulations on a Dask cluster: the same tables as with threads, whatever becomes of the workers."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from models.runtime.protocol import TablePredictor
from pipelines.workers import batch, cluster, work
from pipelines.workers.pace import Pace
from pipelines.workers.where import mapped
from sim import Campaign
from sim.campaigns.maps import Map, serial, threads
from sim.campaigns.sweep import random_weights, sweep
from tests.sim.campaigns.test_campaign import ASKED, JOBS, WEEKS, WIDTH, assert_same, run

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def started(workers: int, **how: Any) -> Any:
    """Return a cluster on this machine; each worker has a thread."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0", **how
    )


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at workers and results more often than once a second."""
    for module in (cluster, work):
        monkeypatch.setattr(module, "LOOK_S", 0.05)


@pytest.fixture(scope="module")
def here() -> Iterator[Any]:
    """Two workers in this process."""
    with started(2, processes=False) as dask_cluster:
        yield dask_cluster


@pytest.fixture(scope="module")
def on_workers(here: Any) -> Iterator[Map]:
    with mapped(here.scheduler_address) as mapping:
        yield mapping


class Half:
    """A predictor in Python, which workers know from here alone."""

    name = "half in Python"

    def begin(self, jobs: pd.DataFrame) -> None:
        self.requested_s = jobs["requested_s"].to_numpy()

    def submitted(self, job: int, now_s: int) -> None: ...
    def started(self, job: int, now_s: int) -> None: ...
    def ended(self, job: int, now_s: int) -> None: ...

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return float(max(self.requested_s[job] // 2, 1))


def test_a_campaign_makes_the_same_table_on_workers_as_in_threads(on_workers: Map) -> None:
    half = TablePredictor("half", lambda jobs: jobs["requested_s"].to_numpy() / 2)
    asked = Campaign(
        schedulers=("EASY", "SAF-EASY-SPF", "JustBF"),
        predictors=(half, "last2", Half),
        corrections=("tsafrir",),
        seeds=(1, 2),
        shake_s=60,
    )
    seen: list[int] = []
    table = run(asked, map_points=on_workers, progress=lambda done, total: seen.append(done))
    assert_same(table, run(asked, map_points=threads(2)))
    assert seen == list(range(1, len(table) + 1))


def test_sweeps_measure_the_same_on_workers(on_workers: Map) -> None:
    weights, week = random_weights(600), JOBS.head(60)
    one, two = (sweep(week, weights, procs=WIDTH, map_pieces=each) for each in (serial, on_workers))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_an_error_is_that_of_threads_and_what_was_done_before_is_told(on_workers: Map) -> None:
    seconds = JOBS["requested_s"].to_numpy(np.float64).copy()
    seconds[WEEKS.windows[1].rows[3]] = np.nan
    asked = Campaign(schedulers=("EASY",), predictors=(TablePredictor("broken", lambda jobs: seconds),))
    refusals, done = [], []
    for each in (threads(1), on_workers):
        with pytest.raises(InputError) as raised:
            run(asked, map_points=each, finished=lambda point, rows: done.append(point.window))
        refusals.append(str(raised.value))
    assert refusals[0] == refusals[1]
    assert done[0] == 1


def test_a_defect_keeps_its_traceback_and_the_point_it_came_from(on_workers: Map) -> None:
    def fails(piece: int) -> int:
        return 1 // piece

    with pytest.raises(ZeroDivisionError) as raised:
        list(on_workers(fails, [1, 0]))
    assert raised.traceback[-1].name == "fails"


class Mute(Exception):
    """An error that has no words and cannot be sent."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class Last(BaseException):
    __str__, __reduce__ = Mute.__str__, Mute.__reduce__


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Mute, "^Mute, which does not say"),
        (Last, "cannot compute.*Last, which does not say"),
        (SystemExit, "cannot compute.*SystemExit"),
    ],
)
def test_an_error_that_cannot_be_sent_comes_back_as_words(on_workers: Map, error: type[BaseException], words: str) -> None:
    def fails(piece: int) -> None:
        raise error(piece)

    with pytest.raises((RuntimeError, InputError), match=words):
        list(on_workers(fails, [1]))
    assert list(on_workers(str, [1])) == ["1"]


def test_a_worker_that_is_lost_changes_nothing(here: Any) -> None:
    lines: list[str] = []

    def lose(*_: object) -> None:
        if not lines:
            lines.append("one is lost")
            here.sync(here.workers[0].close, executor_wait=False, nanny=False)

    with mapped(here.scheduler_address, say=lines.append) as on_workers:
        assert_same(run(ASKED, map_points=on_workers, finished=lose), run(ASKED, map_points=serial))
    assert any("1 worker lost, 1 there" in line for line in lines)


def test_a_first_answer_that_came_with_another_message_is_asked_for_again(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tried = distributed.Client, []

    def client(*given: Any, **named: Any) -> Any:
        tried.append(given)
        assert len(tried) > 2
        return real(*given, **named)

    monkeypatch.setattr(distributed, "Client", client)
    with mapped(here.scheduler_address) as on_workers:
        assert list(on_workers(str, [1])) == ["1"]
    assert len(tried) == 3


def test_a_piece_that_kills_each_worker_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes of their own; each death counts, so that few are needed."""

    def fatal(piece: tuple[str, ...]) -> str:
        if "fatal" in piece:
            os.kill(os.getpid(), signal.SIGKILL)
        return " ".join(piece)

    monkeypatch.setitem(dask.config.config["distributed"]["scheduler"], "allowed-failures", 0)
    monkeypatch.setenv("QUEUECAST_WAIT_S", "600")  # for another worker to come, on a busy machine
    answers: list[str] = []
    with started(1) as dask_cluster, mapped(dask_cluster.scheduler_address) as on_workers:
        results = on_workers(fatal, [("one", "fatal"), ("two",)])
        with pytest.raises(InputError, match=r"^fatal: each worker that computed it died"):
            answers.extend(results)
        assert list(on_workers(str, [3])) == ["3"]  # another worker has come
    assert set(answers) <= {"one", "two"}  # which of them came before the failure depends on which death was told first


def test_workers_of_other_versions_are_refused(on_workers: Map, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = dict(work.versions())
    monkeypatch.setattr(work, "versions", lambda: (*(ours | {"numpy": "1.0", "code": "abc"}).items(),))
    with pytest.raises(
        InputError, match=rf"could make other tables: it has numpy {np.__version__}, here 1.0; code {ours['code']}, here abc"
    ):
        list(on_workers(str, [1]))


def test_what_cannot_be_sent_is_refused(on_workers: Map) -> None:
    lock = threading.Lock()
    with pytest.raises(InputError, match=r"cannot be sent to workers.*lock"):
        list(on_workers(lambda piece: lock, [1]))
    with pytest.raises(RuntimeError, match=r"cannot be sent back from a worker.*lock"):
        list(on_workers(lambda piece: threading.Lock(), [1]))


def test_a_scheduler_that_is_gone_ends_the_work_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with started(1, processes=False) as dask_cluster:
        address = dask_cluster.scheduler_address
        with mapped(address) as on_workers:
            results = iter(on_workers(str, range(5)))
            assert next(results) in "01234"
            monkeypatch.setattr(on_workers, "wait_s", 0.2)
            monkeypatch.setattr(on_workers.client, "_timeout", 0.2)
            dask_cluster.close()
            with pytest.raises(InputError, match="the scheduler is gone"):
                list(results)
    monkeypatch.setenv("QUEUECAST_WAIT_S", "0.2")
    with pytest.raises(InputError, match=rf"^{address}: no Dask scheduler could be reached in 0.2 s"), mapped(address):
        pass


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("localhost:8786", "cannot run on 'localhost:8786': give tcp://host:port of a Dask scheduler, or one of slurm, pbs"),
        ("slurm(partition=short)", "unknown option 'partition'; known: jobs, cores"),
        ("slurm(jobs=0)", "jobs: must be a finite number, at least 1"),
    ],
)
def test_an_unknown_place_is_refused(on: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)), mapped(on):
        pass


def test_without_its_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(InputError, match=r"needs the package distributed: pip install queuecast\[server\]"),
        mapped("tcp://127.0.0.1:1"),
    ):
        pass


@pytest.fixture
def batch_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let Slurm's commands run each job as a process group: the first at once, others late; return where ``jobs`` lists them."""
    commands = {
        "sbatch": "cp $1 $HOME/job; test -e $HOME/jobs && late=1.5\n"
        'setsid sh -c "sleep ${late:-0}; exec sh $HOME/job" >/dev/null 2>&1 & echo Submitted batch job $!; echo $! >>$HOME/jobs',
        "scancel": "kill -- -$1",
        "squeue": "for job in $(cat $HOME/jobs); do kill -s 0 -- -$job && echo $job; done; true",
    }
    for name, line in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_results_that_are_lost_before_they_come_are_made_again_by_new_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    real, lost = work.Work._gathered, list[int]()

    def gathered(self: work.Work, futures: list[Any]) -> dict[Any, Any]:
        if futures and not lost:
            lost.append(len(futures))
            for each in list(dask_cluster.workers.values()):
                dask_cluster.sync(each.close)
        return real(self, futures)

    def mend() -> None:
        if lost and len(dask_cluster.workers) < 2:
            dask_cluster.scale(2)  # the first is one that is closed

    monkeypatch.setattr(work, "_GATHER_S", 0.5)
    monkeypatch.setattr(work.Work, "_gathered", gathered)
    with started(1, processes=False) as dask_cluster, distributed.Client(dask_cluster) as client:
        squares = work.OnWorkers(client, "dask", lambda _: None, mend=mend)(lambda piece: piece**2, range(9))
        assert sorted(squares) == [piece**2 for piece in range(9)]
    assert lost


@pytest.mark.parametrize(
    ("ours_s", "dasks_s"),
    [pytest.param(0.1, 1.0, id="we are first"), pytest.param(60.0, 0.1, id="Dask is first", marks=pytest.mark.thorough)],
)
def test_a_lost_job_is_replaced_whoever_ends_it(
    ours_s: float, dasks_s: float, batch_system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask ends, some time after a worker was lost, the job that is called like it."""
    monkeypatch.setattr(batch, "_LOST_S", ours_s)
    monkeypatch.setattr(batch, "_ASK_S", 0.3)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": f"{dasks_s} s"}), mapped("slurm(jobs=1)") as on_workers:
        monkeypatch.setattr(on_workers, "wait_s", 120.0)
        assert [*on_workers(str, [1])] == ["1"]
        os.killpg(int((batch_system / "jobs").read_text()), signal.SIGKILL)
        assert sorted(on_workers(str, range(20))) == sorted(map(str, range(20)))
    assert len((batch_system / "jobs").read_text().split()) == 2


def test_jobs_of_a_batch_system_are_workers_until_the_end(batch_system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    with mapped("slurm(jobs=1)", say=lines.append) as on_workers:
        monkeypatch.setattr(on_workers, "wait_s", 120.0)  # a job that dies here is no reason to wait for ever
        assert sorted(on_workers(str, range(20))) == sorted(map(str, range(20)))
        assert on_workers.client.scheduler.address.startswith("tls://")
        folder = next((batch_system / ".cache" / "queuecast").iterdir())
        assert folder.stat().st_mode & 0o777 == 0o700
    assert lines == [f"slurm: 1 job submitted for workers; logs: {folder}"]
    assert not folder.exists()
    job = int((batch_system / "jobs").read_text())
    deadline = time.monotonic() + 60
    while _runs(job) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(job)
    with pytest.raises(InputError, match=r"^pbs: there is no command qsub here"), mapped("pbs"):
        pass


def _runs(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_tasks_grow_to_a_second_and_shrink_for_the_last_pieces() -> None:
    pace = Pace()
    assert pace.size(10_000, 2) == 1
    pace.seen(1, 0.01)
    assert [pace.size(10_000, 2) for _ in range(4)] == [4, 16, 64, 100]
    assert [pace.size(left, 2) for left in (200, 60, 40, 3)] == [50, 15, 12, 3]
    assert pace.size(10**9, 1000) == 400
    assert pace.size(10**9, 1000) == 500  # five seconds: a scheduler gives out so many tasks a second
    pace.seen(100, 200.0)
    assert pace.size(10_000, 2) == 1
