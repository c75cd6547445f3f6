"""A long compilation is said and its end too; a short one, and a kernel from the cache, are silent."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from numba import njit
from numba.core.caching import IndexDataCacheFile

from pipelines.cli import compiling
from pipelines.cli.compiling import announce_compilation
from sim import simulate
from sim.cluster.cluster_loop import drive
from sim.kernel.planning_search import search
from sim.kernel.run import run
from tests.support.workloads import crowd


@pytest.fixture(autouse=True, scope="module")
def _announced():
    announce_compilation()


def compiled(capsys: pytest.CaptureFixture[str]) -> str:
    @njit
    def twice(number):
        return 2 * number

    assert twice(21) == 42
    return capsys.readouterr().err


def test_a_long_compilation_is_said(monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_AFTER_S", 0.0)
    said = compiled(capsys)
    assert "compiling the simulation kernels" in said
    assert "compiled in" in said


def test_a_short_one_is_silent(monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_AFTER_S", 600.0)
    assert compiled(capsys) == ""
    time.sleep(0.01)
    assert capsys.readouterr().err == ""


def test_before_a_run_all_kernels_are_compiled():
    for compiled in compiling.KERNELS.values():
        compiled()
    assert len(run.signatures) >= 2
    assert drive.signatures
    forms = len(run.signatures), len(search.signatures)
    jobs = crowd(np.random.default_rng(0), 40).table()
    for scheduler in ("EASY", "JustBF", "Harm", "PlanRS", "OrigBF"):
        simulate(jobs, procs=64, scheduler=scheduler)
    assert (len(run.signatures), len(search.signatures)) == forms, "some form is compiled when it is first simulated"


def test_kernels_that_share_functions_are_kept_in_turn(monkeypatch):
    lock, seen = threading.Lock(), []
    monkeypatch.setattr(IndexDataCacheFile, "save", lambda *kept: seen.append((lock.locked(), kept[1:])))
    compiling._keep_in_turn(lock)
    IndexDataCacheFile.save(None, "key", "data")
    assert seen == [(True, ("key", "data"))]
    assert not lock.locked()
