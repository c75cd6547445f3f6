"""A trace that arrives day by day and changes on one day, for the tests of nights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import Trace, conform, masked
from pipelines.lake.tables import Lake
from pipelines.training.ledger import ReplayedTrace, replay

ORIGIN_S, ZONE = 1_700_006_400, "Europe/Stockholm"  # a midnight of UTC
CHANGE_DAY, DAYS, PROCS = 17, 28, 64


def arriving(jobs: int = 4200, users: bool = True, waits: bool = True, seed: int = 5) -> CleanTrace:
    """Return a trace: wide jobs run nearly to their request, narrow ones do not.

    Narrow jobs run a twentieth of it; from day ``CHANGE_DAY`` on it is the other way round.
    """
    random = np.random.default_rng(seed)
    submit = np.sort(random.integers(0, DAYS * DAY_S, jobs))
    procs = 2 ** random.integers(0, 5, jobs)
    requested = 600 * 2 ** random.integers(0, 6, jobs)
    long = (procs >= 4) == (submit < CHANGE_DAY * DAY_S)
    runtime = np.clip((np.where(long, 0.9, 0.05) * requested * random.lognormal(0, 0.1, jobs)).astype(np.int64), 1, requested)
    columns = {
        "job_id": np.arange(1, jobs + 1),
        "submit_s": submit,
        "runtime_s": runtime,
        "procs": procs,
        "requested_s": requested,
        "user": np.array([f"user{u:02d}" for u in random.integers(0, 60, jobs)]) if users else None,
    }
    if waits:
        columns["wait_s"] = masked(random.integers(0, 900, jobs), np.ones(jobs, bool))
    trace = Trace("arriving", conform({k: v for k, v in columns.items() if v is not None}, jobs), PROCS, ORIGIN_S, ZONE)
    return clean(trace)


def source(**kwargs: object) -> ReplayedTrace:
    """The trace, ready to arrive."""
    return replay(arriving(**kwargs))  # type: ignore[arg-type]


def contents(home: Path) -> dict[str, bytes]:
    """Return what readers see of ``arriving`` in ``home``.

    Every table of its current version, and every page.
    """
    seen = Lake(home / "lake").versions("runtime-arriving").current()
    tables = {name: (home / "lake" / file).read_bytes() for name, file in seen.files.items()}
    pages = {path.relative_to(home).as_posix(): path for path in (home / "reports").rglob("*") if path.is_file()}
    return tables | {name: path.read_bytes() for name, path in pages.items()}
