"""A trace at another load, or compressed in time.

If nothing waits on a machine, it cannot tell schedulers apart. Two changes that raise contention are usual: shorter times between
submissions (``load``), and runtimes and times between submissions divided alike (``squeeze``; by seven in Klusáček & Chlumský,
JSSPP 2017). ``squeeze`` keeps the load and turns a trace of months into one of weeks. Neither is the recorded workload any more,
so everything that shows such results names the factors.
"""

from __future__ import annotations

import math

import numpy as np

from features.deferred import pd
from features.errors import InputError
from features.jobs.choices import LARGEST
from features.jobs.schema import OVERRUN


def check_factor(name: str, factor: float) -> None:
    """Raise InputError unless ``factor`` is a finite number above 0 and at most ``LARGEST``."""
    if not (math.isfinite(factor) and 0 < factor <= LARGEST):
        raise InputError(f"{name} {factor:g}: must be a number above 0, at most {LARGEST:,.0f}")


def scaled(jobs: pd.DataFrame, load: float = 1.0, squeeze: float = 1.0) -> pd.DataFrame:
    """Return ``jobs`` with times between submissions divided by ``load`` times ``squeeze``.

    Runtimes and requests are divided by ``squeeze`` and rounded to whole seconds, at least 1. The first submission keeps its
    time. Recorded waits become unknown, because no such schedule was recorded. Raises InputError as :func:`check_factor` does.
    """
    check_factor("load", load)
    check_factor("squeeze", squeeze)
    if load == squeeze == 1 or len(jobs) == 0:
        return jobs
    submit = jobs["submit_s"].to_numpy(np.int64)
    changed = {"submit_s": submit[0] + divided(submit - submit[0], load * squeeze)}
    if squeeze != 1:
        for name in ("runtime_s", "requested_s"):
            changed[name] = np.maximum(np.rint(jobs[name].to_numpy(np.float64) / squeeze), 1).astype(np.int64)
    left = jobs.drop(columns=OVERRUN) if OVERRUN in jobs else jobs
    return left.assign(**changed, wait_s=pd.array([pd.NA] * len(jobs), "Int64"))


def divided(seconds: np.ndarray, factor: float) -> np.ndarray:
    """Return whole seconds divided by ``factor``, rounded down, int64."""
    return np.floor(seconds / factor).astype(np.int64)
