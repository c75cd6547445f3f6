"""Announce kernel compilation, up to two silent minutes on a machine's first use."""

import gc
import os
import time
from functools import cache
from pathlib import Path

import numpy as np

from features.jit import Locator
from features.jobs.schema import Trace
from pipelines.cli import note


@cache
def announce_compilation() -> None:
    """Announce compilation where no compiled code of this installation is kept yet."""
    if not any(Path(Locator(None, __file__).get_cache_path()).glob("*.nbi")):
        note("compiling the parts of the simulator that this command needs: once after each installation, one to two minutes")


_POLICIES = ("policies on clusters", "policies")
_CLUSTERS = ("simulated cluster", "simulated cluster under Harm")
_SHORT = ("searches for plans", "tables of jobs")
KERNELS = ("Slurm", "clusters", "schedulers", "Harm on clusters", "Harm", *_POLICIES, *_CLUSTERS, *_SHORT)
"""The names that :func:`compile_kernel` takes, slowest first."""


def compile_kernel(name: str) -> None:
    """Compile one of :data:`KERNELS`, or load it from its cache."""
    from sim.cluster.presets import CONGESTED
    from sim.cluster.simulate import simulate_on
    from sim.cluster.users import continuous
    from sim.outcome import load_kernel, load_search
    from sim.policy import Policy
    from sim.site.queue_ahead import load_kernels
    from sim.workloads.workload import Workload, generate

    if name in _CLUSTERS:
        jobs = continuous(0.01, 0, procs=CONGESTED.procs)
        simulate_on(CONGESTED, jobs, Policy("Harm" if "Harm" in name else "EASY"))
    elif name == "tables of jobs":
        _describe(generate(Workload(jobs=300)))
    elif name == "Slurm":
        load_kernels()
    elif name == "searches for plans":
        load_search()
    else:
        load_kernel(weighs="Harm" in name, clustered="clusters" in name, decides=name in _POLICIES)


def _describe(trace: Trace) -> None:
    """Compute the features and the quantiles of a trace's jobs, and the states of its queue."""
    from features.jobs.runtime_features import runtime_features
    from models.packed.queue_state import QueueJobs, states
    from sim.simulation import simulate

    submit_s, one = trace.jobs["submit_s"].to_numpy(np.int64), np.ones(len(trace.jobs), np.int64)
    runtime_features(trace.jobs, submit_s, submit_s)
    simulate(trace.jobs, procs=trace.procs, predictor="quantile")
    queue = QueueJobs(submit_s, submit_s, submit_s, one, one, one, one, one, quantiles=one[:, None])
    states(queue, np.arange(1), submit_s[:1], submit_s[:1], procs=1)


def compile_kernels() -> None:
    """Compile all kernels, in as many processes as there are cores.

    A process compiles a function that its kernels share only once. It collects no garbage, which would take a tenth of
    the time, and so holds up to 1 GB.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    began, context = time.monotonic(), multiprocessing.get_context("spawn")
    note("compiling the whole simulator, for tests and later commands: once after each installation, two to four minutes")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(KERNELS)), context, gc.disable) as pool:
        list(pool.map(compile_kernel, KERNELS))  # an error is raised here
    note(f"compiled in {time.monotonic() - began:.0f} s; later commands use it")


if __name__ == "__main__":
    compile_kernels()
