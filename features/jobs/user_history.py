"""What is known of a user, and a submission's features from it.

They unite the per-user features of Gaussier et al. 2015 (table 2) and of OKCM (Li, Zhang; table 1). The state of a user, at a
submission of the trace or in the snapshot of a registered model, becomes features here alone. Packed into registered models.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

DAY_S = 86_400
WEEK_S = 7 * DAY_S
MONDAY_S = 4 * DAY_S  # 1970-01-05
STATE = {
    "completed_jobs": 0.0,
    "last_runtime_s": np.nan,
    "second_last_runtime_s": np.nan,
    "third_last_runtime_s": np.nan,
    "sum_runtime_s": 0.0,
    "sum_procs": 0.0,
    "sum_allocated_procs": 0.0,
    "last_end_s": np.nan,
    "running_jobs": 0.0,
    "running_procs": 0.0,
    "running_sum_start_s": 0.0,
    "running_earliest_start_s": np.nan,
    "user_spread_log": np.nan,
    "user_much_longer_share": np.nan,
    "user_trend_log": np.nan,
    "user_used_share": np.nan,
}
"""The state of a user, and its values for one without history. The last four are of :mod:`features.jobs.variability`."""


def history(state: Mapping[str, np.ndarray], procs: np.ndarray, now: np.ndarray, local: np.ndarray) -> dict[str, np.ndarray]:
    """Return the features of submissions from the ``state`` of their users, float64 [jobs].

    ``procs`` are requested processors, ``now`` seconds from the trace's origin, ``local`` those of the wall clock since
    1970-01-01 00:00, all [jobs]. Counts and sums over no job are 0; means, longest, last and ``break_s`` are NaN if they lack a
    job, so ``mean_last3_runtime_s`` needs three. Weeks begin on Monday.
    """
    completed, running = state["completed_jobs"], state["running_jobs"]
    last, second_last, third_last = (state[f"{which}_runtime_s"] for which in ("last", "second_last", "third_last"))
    some, some_running = np.where(completed > 0, completed, np.nan), np.where(running > 0, running, np.nan)
    mean_procs = state["sum_procs"] / some
    day = local % DAY_S * (2 * np.pi / DAY_S)
    week = (local - MONDAY_S) % WEEK_S * (2 * np.pi / WEEK_S)
    return {
        "completed_jobs": completed,
        "last_runtime_s": last,
        "second_last_runtime_s": second_last,
        "third_last_runtime_s": third_last,
        "mean_last2_runtime_s": (last + second_last) / 2,
        "mean_last3_runtime_s": (last + second_last + third_last) / 3,
        "mean_runtime_s": state["sum_runtime_s"] / some,
        "sum_runtime_s": state["sum_runtime_s"],
        "mean_procs": mean_procs,
        "mean_allocated_procs": state["sum_allocated_procs"] / some,
        "procs_over_mean": procs / mean_procs,
        "running_jobs": running,
        "running_mean_procs": state["running_procs"] / some_running,
        "occupied_procs": state["running_procs"],
        "longest_running_s": now - state["running_earliest_start_s"],
        "sum_running_s": running * now - state["running_sum_start_s"],
        "break_s": now - state["last_end_s"],
        "cos_day": np.cos(day),
        "sin_day": np.sin(day),
        "cos_week": np.cos(week),
        "sin_week": np.sin(week),
        **{name: state[name] for name in list(STATE)[-4:]},
    }


_NONE = np.zeros(0)
HISTORY: tuple[str, ...] = tuple(history(dict.fromkeys(STATE, _NONE), _NONE, _NONE, _NONE))
"""Columns of :func:`history`, in order."""
