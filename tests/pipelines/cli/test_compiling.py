"""Compilation is announced before the first, and all kernels are compiled where that is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.cli import compiling
from sim import simulate
from sim.cluster.start_models import drive
from sim.kernel.planning import search
from sim.kernel.run import run
from sim.machine.description import Cluster, Machine, NodeGroup
from tests.oracle.decisions import Whim
from tests.support.workloads import crowd


def test_compilation_is_announced_where_nothing_is_compiled_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiling.Locator, "get_cache_path", lambda self: str(tmp_path))
    compiling.announce_compilation.__wrapped__()
    assert "compiling the parts of the simulator that this command needs" in capsys.readouterr().err
    (tmp_path / "kernel.nbi").touch()
    compiling.announce_compilation.__wrapped__()
    assert capsys.readouterr().err == ""


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
