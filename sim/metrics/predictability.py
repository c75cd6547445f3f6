"""How well a planner predicts when jobs will start: planned against actual starts.

Predictability is the first claim of Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler"
(JSSPP 2017), which gives no number for it. Here the plan at a job's submission counts as its user's information.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd


def first_told(plans: pd.DataFrame | None, job_id: np.ndarray) -> np.ndarray:
    """Return the first planned starts of the jobs ``job_id``, float64 [jobs], s.

    NaN without a plan, and for a number that several jobs have. ``plans`` as in :class:`~sim.schedule.Schedule`; those of other
    jobs are ignored.
    """
    if plans is None:
        return np.full(len(job_id), np.nan)
    first = plans.drop_duplicates("job_id").set_index("job_id")["planned_start_s"]
    return first.reindex(job_id).mask(pd.Index(job_id).duplicated(keep=False)).to_numpy(np.float64)


def predicted_start_error_s(plans: pd.DataFrame | None, job_id: np.ndarray, start: np.ndarray) -> float:
    """Return the mean of abs(actual start - first planned start), s; NaN without plans."""
    late = start - first_told(plans, job_id)
    planned = ~np.isnan(late)
    return float(np.abs(late[planned]).mean()) if planned.any() else np.nan
