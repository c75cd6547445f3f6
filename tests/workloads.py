"""Small workloads for the simulator's tests, drawn by hypothesis or from a seed, in the oracle's form and as a canonical table."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from features.schema import REQUIRED, conform
from sim import Schedule, simulate
from sim.orders import ORDERS
from tests import oracle

PURE = [order for order in ORDERS if order != "MIXED"]
EASY_NAMES = [f"{order}-EASY-{backfill}" for order in PURE for backfill in PURE]
OTHER_NAMES = [f"{order}-{algorithm}" for algorithm in ("JustBF", "List", "Strict") for order in PURE]
CONSERVATIVE = "FCFS-Conservative"
schedulers = st.one_of(st.sampled_from(EASY_NAMES), st.sampled_from(OTHER_NAMES), st.just(CONSERVATIVE))
"""Every scheduler there is, by its full name; mixed policies aside."""

Result = tuple[list[int], list[int], list[int]]


@dataclass(frozen=True)
class Workload:
    """Jobs in order of submission, and the machine they are for; ``estimates`` are in 1..requested, on both sides of the runtimes."""

    machine: int
    submit: list[int]
    runtime: list[int]
    procs: list[int]
    requested: list[int]
    user: list[str | None]
    estimates: list[int]

    def table(self) -> pd.DataFrame:
        """The canonical jobs table, as cleaning leaves it; jobs are numbered from 1."""
        columns = {
            "job_id": range(1, len(self.submit) + 1),
            "submit_s": self.submit,
            "runtime_s": self.runtime,
            "procs": self.procs,
            "requested_s": self.requested,
            "user": self.user,
        }
        return conform(columns, len(self.submit)).astype(dict.fromkeys(REQUIRED, "int64"))

    def first(self, count: int) -> Workload:
        """The first ``count`` jobs."""
        cut = {column.name: getattr(self, column.name)[:count] for column in fields(self) if column.name != "machine"}
        return replace(self, **cut)

    def schedule(self, scheduler: str, predictor: Any = None, **policy: Any) -> Schedule:
        """The compiled simulator's schedule; predictions are the workload's own ``estimates`` unless told otherwise."""
        source = self.estimates if predictor is None else predictor
        return simulate(self.table(), procs=self.machine, scheduler=scheduler, predictor=source, **policy)

    def by_oracle(self, **policy: Any) -> Result:
        """The oracle's starts, predictions and numbers of corrections."""
        return oracle.simulate(self.submit, self.runtime, self.procs, self.requested, self.machine, user=self.user, **policy)


@st.composite
def workloads(draw: st.DrawFn, most: int = 30) -> Workload:
    """Up to ``most`` jobs that come faster than the machine can run them, often in the same second and of the same size."""
    machine = draw(st.integers(1, 12))
    unit = draw(st.sampled_from([1, 40]))  # 40: as long as the steps by which Tsafrir corrects
    seconds = st.integers(1, 12).map(unit.__mul__)
    job = st.tuples(
        st.integers(0, 4).map(unit.__mul__),
        seconds,
        seconds,
        seconds,
        st.integers(1, machine),
        st.sampled_from(["ann", "bob", None]),
    )
    gaps, requested, runtime, estimates, procs, user = map(list, zip(*draw(st.lists(job, min_size=1, max_size=most)), strict=True))
    return Workload(
        machine=machine,
        submit=np.cumsum(gaps).tolist(),
        runtime=np.minimum(runtime, requested).tolist(),
        procs=procs,
        requested=requested,
        user=user,
        estimates=np.minimum(estimates, requested).tolist(),
    )


def crowd(rng: np.random.Generator, size: int = 200, machine: int = 64, longest_s: int = 600, origin_s: int = 0) -> Workload:
    """``size`` jobs of mostly few processors and round requests, submitted in bursts, a tenth more than the machine can take."""
    requested = np.ceil(longest_s * rng.random(size) ** 2 / 30).astype(int).clip(1) * 30
    runtime = np.ceil(requested * rng.random(size)).astype(int).clip(1)
    procs = np.ceil(machine * rng.random(size) ** 3).astype(int).clip(1)
    gap_s = float((runtime * procs).mean()) / (1.1 * machine)
    bursts = rng.random(size) < 0.5
    submit = origin_s + np.cumsum(np.where(bursts, 0, rng.exponential(2 * gap_s, size))).astype(int)
    return Workload(
        machine=machine,
        submit=submit.tolist(),
        runtime=runtime.tolist(),
        procs=procs.tolist(),
        requested=requested.tolist(),
        user=[f"u{number}" for number in rng.integers(1, 8, size)],
        estimates=np.ceil(requested * rng.random(size)).astype(int).clip(1).tolist(),
    )
