"""Simulations on a Dask cluster: the same tables as with threads, whatever becomes of the workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from models.runtime.protocol import TablePredictor
from pipelines import workers
from pipelines.workers import mapped
from sim import Campaign
from sim.campaigns.maps import Map, threads
from tests.sim.campaigns.test_campaign import ASKED, JOBS, WEEKS, assert_same, run
from tests.support.patience import wait_until

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def started(workers: int, **how: Any) -> Any:
    """Return a cluster on this machine; each worker has a thread."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0", **how
    )


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


def test_an_error_is_that_of_threads(on_workers: Map) -> None:
    seconds = JOBS["requested_s"].to_numpy(np.float64).copy()
    seconds[WEEKS.windows[1].rows[3]] = np.nan
    asked = Campaign(schedulers=("EASY",), predictors=(TablePredictor("broken", lambda jobs: seconds),))
    refusals = []
    for place in (threads(1), on_workers):
        with pytest.raises(InputError) as raised:
            run(asked, map_points=place)
        refusals.append(str(raised.value))
    assert refusals[0] == refusals[1]


def test_a_worker_that_is_lost_changes_nothing(here: Any, on_workers: Map) -> None:
    lost: list[object] = []

    def lose(*_: object) -> None:
        if not lost:
            lost.append(here.sync(here.workers[0].close, executor_wait=False, nanny=False))

    assert_same(run(ASKED, map_points=on_workers, finished=lose), run(ASKED, map_points=map))
    assert lost


def test_what_cannot_be_sent_is_refused(on_workers: Map) -> None:
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to workers"):
        list(on_workers(lambda piece: lock, [1]))


def test_a_scheduler_that_is_gone_ends_the_work_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with started(1, processes=False) as dask_cluster:
        address = dask_cluster.scheduler_address
        with dask.config.set({"distributed.comm.timeouts.connect": "0.2 s"}), mapped(address) as on_workers:
            results = iter(on_workers(str, range(5)))
            assert next(results) in "01234"
            dask_cluster.close()
            with pytest.raises(InputError, match="the scheduler stopped"):
                list(results)
    monkeypatch.setattr(workers, "WAIT_S", 0.2)
    with pytest.raises(InputError, match=rf"^{address}: there are no workers: "), mapped(address):
        pass


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("localhost:8786", "cannot run on 'localhost:8786': give tcp://HOST:PORT of a Dask scheduler, or slurm"),
        ("slurm(jobs=0)", "jobs: must be a finite number, at least 1"),
        ("slurm(jobs=1,cores=1,memory=1GB,color=red)", "slurm: there are no workers: .*color"),
        ("tcp://user:planted@127.0.0.1:1", r"^tcp://\*\*\*@127\.0\.0\.1:1: there are no workers"),
    ],
)
def test_an_unknown_place_is_refused(on: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WAIT_S", 0.2)
    with pytest.raises(InputError, match=words) as refused, mapped(on):
        pass
    assert "planted" not in str(refused.value)


@pytest.fixture
def batch_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let Slurm's commands run each job as a process group; return where ``jobs`` lists them."""
    commands = {
        # like Slurm it keeps a copy of the script, which is deleted as soon as this returns
        "sbatch": "cp $1 $HOME/script.$$; cat $1 >>$HOME/scripts; setsid sh $HOME/script.$$ >/dev/null 2>&1 &\n"
        "echo Submitted batch job $!; echo $! >>$HOME/jobs",
        "scancel": "kill -- -$1",
    }
    for name, line in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.thorough  # distributed gives the thread of its loop ten seconds to begin, by the clock
def test_jobs_of_slurm_are_workers_until_the_end(batch_system: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with mapped("slurm(jobs=2,cores=1,memory=1GB,queue=short)") as on_workers:
        assert sorted(on_workers(str, range(20))) == sorted(map(str, range(20)))
        assert signal.getsignal(signal.SIGINT) is before
        script = (batch_system / "scripts").read_text()
        assert "#SBATCH -p short" in script
        assert "tls://" in script
        assert [path.stat().st_mode & 0o077 for path in batch_system.glob(".dask-jobqueue.*")] == [0, 0, 0]
    scancelled = (batch_system / "jobs").read_text().split()
    wait_until(lambda: not any(Path(f"/proc/{job}").exists() for job in scancelled))


def test_jobs_that_slurm_refuses_are_not_waited_for(batch_system: Path) -> None:
    (batch_system / "sbatch").write_text("#!/bin/sh\necho invalid partition >&2; exit 1\n")
    with (
        pytest.raises(InputError, match=r"^slurm: there are no workers: .*invalid partition"),
        mapped("slurm(jobs=2,cores=1,memory=1GB)"),
    ):
        pass
