"""A long compilation is said once; a short one, and a kernel from the cache, are silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numba import njit
from numba.core.event import install_listener

from pipelines.cli import compiling
from sim import simulate
from sim.cluster.start_models import drive
from sim.kernel.planning import search
from sim.kernel.run import run
from sim.machine.description import Cluster, Machine, NodeGroup
from tests.oracle.decisions import Whim
from tests.support.workloads import crowd


@pytest.fixture
def compiled(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """Return what a compilation prints in a process that has announced none yet."""

    def printed() -> str:
        @njit
        def twice(number):
            return 2 * number

        assert twice(21) == 42
        return capsys.readouterr().err

    with install_listener("numba:compile", compiling._Announcer()):
        yield printed


def test_a_short_one_is_silent(monkeypatch, capsys, compiled):
    monkeypatch.setattr(compiling, "_AFTER_S", 600.0)
    assert compiled() == ""
    time.sleep(0.01)
    assert capsys.readouterr().err == ""


def test_the_first_long_compilation_is_said_and_no_other(monkeypatch, compiled):
    monkeypatch.setattr(compiling, "_AFTER_S", 0.0)
    assert "compiling the parts of the simulator that this command needs" in compiled()
    assert compiled() == ""


@pytest.mark.slow
def test_all_kernels_are_compiled_beforehand_where_that_is_asked_for():
    for kernel in compiling.KERNELS:
        compiling.compile_kernel(kernel)
    assert len(run.signatures) >= 2
    assert drive.signatures
    forms = len(run.signatures), len(search.signatures)
    jobs = crowd(np.random.default_rng(0), 40).table()
    nodes = Machine("nodes", (Cluster("all", (NodeGroup(64, 1),)),))
    for scheduler in ("EASY", "JustBF", "Harm", "PlanRS", "OrigBF"):
        simulate(jobs, procs=64, scheduler=scheduler)
        simulate(jobs, machine=nodes, scheduler=scheduler)
    simulate(jobs, procs=64, scheduler="EASY+RUSH(skips=1)", start_decision=Whim())
    assert (len(run.signatures), len(search.signatures)) == forms, "some form is compiled when it is first simulated"
