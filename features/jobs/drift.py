"""Input drift: the last window of jobs against a model's training jobs.

The measure is the population stability index, sum (p - q) ln(p / q) over bins (Jeffreys' divergence); credit scoring
takes 0.1 for a shift and 0.25 for a large one. Users come and go in bursts, so windows of one site differ by that much
all the time. The limit therefore comes from the site itself: every earlier window of the same length is compared with
the rest of the training jobs in the same way. The last window drifts if it exceeds Student's t prediction limit of
those (in logarithms) and 0.1. Windows go by the jobs' ends, so that a long job is as likely to be in one as a short
one.
"""

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from features.clock import DAY_S
from features.jobs.schema import codes

FALSE_ALARMS = 0.05
"""Chance of any alarm in a window of a site that does not change, shared by the inputs (Bonferroni); measured on
generated stationary workloads: 1 to 2 %, see tests/features/jobs/test_drift.py."""
SHIFT = 0.1
"""An index up to this value is never called drift."""
FEWEST_WINDOWS = 8
"""Min number of earlier windows for a verdict."""
FEWEST_JOBS = 50
"""Windows with fewer jobs are left out."""
_TOP_USERS = 20
INPUTS = ("procs", "requested_s", "hour", "user", "unknown users")


def input_drift(
    jobs: pd.DataFrame, end_s: np.ndarray, local_s: np.ndarray, until_s: int, trained_until_s: int, window_s: int = 14 * DAY_S
) -> pd.DataFrame:
    """Compare the window (until_s - window_s, until_s] with the training jobs before it.

    Training jobs had ended by ``trained_until_s`` and lie before the window. ``jobs`` is a cleaned canonical table,
    ``end_s`` int64 [jobs] its ends, ``local_s`` int64 [jobs] the wall clock at submission. Returns one row for each of
    :data:`INPUTS`: ``input measure value limit windows jobs drifted note``. The measure is the index or, for users
    without earlier jobs, the share of jobs; ``limit`` is NaN where there is no verdict, and ``note`` says why.
    """
    window = (until_s - end_s) // window_s  # 0 is the last window
    last = window == 0
    trained = (end_s <= trained_until_s) & ~last
    earlier = [number for number in np.unique(window[trained]) if (window[trained] == number).sum() >= FEWEST_JOBS]
    if earlier and (until_s - int(end_s.min())) // window_s == earlier[-1]:
        earlier.pop()  # the trace begins inside that window
    binned = {
        "procs": np.floor(np.log2(jobs["procs"].to_numpy(np.float64))).astype(np.int64),
        "requested_s": _bins(jobs["requested_s"].to_numpy(np.float64), trained),
        "hour": local_s % DAY_S // (3 * 3600),
        "user": _top(codes(jobs, "user"), trained),
    }
    rows = []
    for name in INPUTS:
        if name == "unknown users":
            shares = {number: _unknown(jobs, end_s, window == number) for number in (0, *earlier)}
            value, before = shares[0], np.array([shares[number] for number in earlier])
            rows.append(_row(name, "share of jobs", value, before, last, _angle, _share))
            continue
        counts = np.zeros((len(earlier) + 2, int(binned[name].max()) + 1))
        for place, chosen in enumerate((last, trained, *(trained & (window == number) for number in earlier))):
            counts[place] = np.bincount(binned[name][chosen], minlength=counts.shape[1])
        value = stability_index(counts[0], counts[1])
        before = np.array([stability_index(counted, counts[1] - counted) for counted in counts[2:]])
        rows.append(_row(name, "stability index", value, before, last, np.log, np.exp))
    return pd.DataFrame(rows)


def stability_index(counts: np.ndarray, reference: np.ndarray) -> float:
    """Return the population stability index of two lists of counts by bin.

    Half a job is added to every bin that either list uses.
    """
    used = (counts + reference) > 0
    if not used.any():
        return 0.0
    p, q = counts[used] + 0.5, reference[used] + 0.5
    p, q = p / p.sum(), q / q.sum()
    return float(((p - q) * np.log(p / q)).sum())


def _angle(share: np.ndarray) -> np.ndarray:
    return np.arcsin(np.sqrt(share))


def _share(angle: float) -> float:
    return float(np.square(np.sin(min(angle, np.pi / 2))))


def _row(name, measure, value, before, last, forth, back):
    """Compare one input with earlier windows; return its row of the table.

    ``forth`` makes the values of windows roughly normal; ``back`` is its inverse.
    """
    row = {"input": name, "measure": measure, "value": value, "limit": np.nan, "windows": len(before), "jobs": int(last.sum())}
    row |= {"drifted": False, "note": ""}
    if last.sum() < FEWEST_JOBS:
        return row | {"note": f"no verdict: {int(last.sum())} jobs are too few"}
    if len(before) < FEWEST_WINDOWS:
        return row | {"note": f"no verdict: {len(before)} earlier windows are too few"}
    normal = forth(np.maximum(before, 1e-6))
    count = len(normal)
    t = -float(stdtrit(count - 1, FALSE_ALARMS / len(INPUTS)))
    edge = normal.mean() + t * normal.std(ddof=1) * np.sqrt(1 + 1 / count)
    limit = max(float(back(edge)), SHIFT)
    return row | {"limit": limit, "drifted": bool(value > limit)}


def _bins(values: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return the decile bin of each value, by the training jobs; equal edges are merged."""
    if not trained.any():
        return np.zeros(len(values), np.int64)
    return np.searchsorted(np.unique(np.quantile(values[trained], np.arange(1, 10) / 10)), values, side="left")


def _top(user: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return numbers for the most frequent users in training, one more for all others."""
    counts = np.bincount(user[trained] + 1, minlength=int(user.max(initial=-1)) + 2)
    top = np.argsort(-counts, kind="stable")[:_TOP_USERS]
    place = np.full(len(counts), len(top))
    place[top] = np.arange(len(top))
    return place[user + 1]


def _unknown(jobs: pd.DataFrame, end_s: np.ndarray, window: np.ndarray) -> float:
    """Return the share of the window's jobs whose user had no job ended before it began.

    Jobs without a user are left out.
    """
    user = codes(jobs, "user")
    window = window & (user >= 0)
    if not window.any():
        return 0.0
    seen = np.zeros(int(user.max()) + 1, bool)
    seen[user[(end_s < end_s[window].min()) & (user >= 0)]] = True
    return float((~seen[user[window]]).mean())
