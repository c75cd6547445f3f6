"""Windows of a workload, each simulated separately: weeks or months.

They begin at the first submission, as in Legrand, Trystram & Zrigui 2018 ("Adapting batch scheduling to workload
characteristics"). By their rules the first window, a test period of the machine, is left out, and so is a job whose
recorded start and end lie in different windows. A month is 30 days here; the paper does not define it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.clock import DAY_S, WEEK_S
from features.deferred import pd
from features.errors import InputError
from sim.settings import CROSSING, DROP_RULES, NONE, SPLITS

LENGTHS_S: dict[str, int | None] = dict(zip(SPLITS, (None, WEEK_S, 30 * DAY_S), strict=True))
"""Seconds of a window by the name of the split; ``whole`` is one window with all jobs."""
FIRST_WINDOW, CROSSES = "first-window", "crosses-windows"
"""Rules by which a job is in no window, as named in ``Windows.dropped``."""

_MOST = 1_000_000
"""Max number of windows; more mean that times have another unit."""


@dataclass(frozen=True)
class Window:
    """Jobs submitted in ``begin_s <= t < end_s``, seconds from the trace's origin.

    Window 0 begins at the first submission. ``jobs`` is a canonical table that :func:`sim.simulate` takes unchanged;
    its row i is row ``rows[i]`` of the whole trace.
    """

    number: int
    begin_s: int
    end_s: int
    jobs: pd.DataFrame
    rows: np.ndarray


@dataclass(frozen=True)
class Windows:
    """A split of a jobs table; ``dropped``, ``job_id rule``, has a row per job in no window.

    ``basis`` says which times the drop rule used; ``empty`` numbers the windows, up to the last submission, that hold
    no jobs.
    """

    split: str
    skip_first: bool
    drop: str
    windows: tuple[Window, ...]
    dropped: pd.DataFrame
    basis: str
    empty: tuple[int, ...]

    def counts(self) -> dict[str, int]:
        """Return dropped jobs by rule."""
        return {str(rule): int(count) for rule, count in self.dropped["rule"].value_counts(sort=False).items()}


def split_windows(jobs: pd.DataFrame, split: str, *, skip_first: bool = True, drop: str = CROSSING) -> Windows:
    """Split a cleaned jobs table by submission into weeks or months, or leave it ``whole``.

    ``split`` is ``weeks`` (7 days), ``months`` (30 days) or ``whole``; jobs are in order of submission. ``skip_first``
    leaves window 0 out. ``drop="crossing"`` leaves out jobs whose recorded start and end lie in different windows (an
    end in the second at which the next window begins lies in that one); without a recorded start the submission is
    used. ``none`` keeps them. Raises InputError for an unknown name, and if no window is left.
    """
    if split not in LENGTHS_S:
        raise InputError(f"unknown windows {split!r}; known: {', '.join(LENGTHS_S)}")
    if drop not in DROP_RULES:
        raise InputError(f"unknown drop rule {drop!r}; known: {', '.join(DROP_RULES)}")
    if len(jobs) == 0:
        raise InputError("there are no jobs to split into windows")
    submit = jobs["submit_s"].to_numpy(np.int64)
    first, last = int(submit.min()), int(submit.max())
    length = LENGTHS_S[split]
    if length is None:
        whole = Window(0, first, last + 1, jobs, np.arange(len(jobs)))
        no_jobs = np.zeros(len(jobs), bool)
        return Windows(split, False, NONE, (whole,), _dropped(jobs, no_jobs, no_jobs), "nothing", ())
    if (last - first) // length >= _MOST:
        raise InputError(f"{(last - first) // length:,} {split} from first to last submission: are the times in seconds?")

    number = (submit - first) // length
    early = number == 0 if skip_first else np.zeros(len(jobs), bool)
    crossing, basis = np.zeros(len(jobs), bool), "nothing"
    if drop == CROSSING:
        wait = jobs["wait_s"]
        start = submit + wait.fillna(0).to_numpy(np.int64)
        end = start + jobs["runtime_s"].to_numpy(np.int64)
        crossing = ((start - first) // length != (end - first) // length) & ~early
        basis = _basis(int(wait.isna().sum()), len(jobs))
    kept = ~early & ~crossing
    total = int(number.max()) + 1
    rows = np.flatnonzero(kept)
    if len(rows) == 0:
        left_out = " and the first is left out" if skip_first else ""
        raise InputError(f"no window has a job left: the trace has {total} {split}{left_out}")
    present, where = np.unique(number[rows], return_index=True)
    windows = tuple(
        Window(place, first + place * length, first + (place + 1) * length, jobs.iloc[chosen].reset_index(drop=True), chosen)
        for place, chosen in zip(present.tolist(), np.split(rows, where[1:]), strict=True)
    )
    empty = tuple(sorted(set(range(int(skip_first), total)) - set(present.tolist())))
    return Windows(split, skip_first, drop, windows, _dropped(jobs, early, crossing), basis, empty)


def _basis(unrecorded: int, total: int) -> str:
    """Return the times that the crossing rule used, in words."""
    if unrecorded == 0:
        return "recorded starts and ends"
    if unrecorded == total:
        return "submission and submission + runtime, as no start is recorded"
    return f"recorded starts and ends; submission and submission + runtime for {unrecorded:,} jobs whose start is not recorded"


def _dropped(jobs: pd.DataFrame, early: np.ndarray, crossing: np.ndarray) -> pd.DataFrame:
    rows = early | crossing
    rule = pd.array(np.where(early, FIRST_WINDOW, CROSSES)[rows], dtype="str")
    return pd.DataFrame({"job_id": jobs["job_id"].to_numpy()[rows], "rule": rule})
