"""The input matrix of runtime learners: the submission and the user's history.

Training and prediction share one order of columns; ``models.packed.snapshot_inputs``, packed into registered models, makes the
same columns from a snapshot.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.jobs.history import HISTORY

FEATURES: tuple[str, ...] = ("requested_s", "procs", *HISTORY)
"""Columns of :func:`model_inputs`, in order; the submission's wall clock is among those of the history."""


def model_inputs(jobs: pd.DataFrame, history: pd.DataFrame) -> pd.DataFrame:
    """Return model inputs, float64 [jobs, len(FEATURES)], contiguous rows.

    ``jobs`` is a cleaned canonical table and ``history`` its ``features.jobs.history.history``; NaN where a history does not
    exist. Raises ValueError if their rows differ.
    """
    if not jobs.index.equals(history.index):
        raise ValueError("jobs and history have different rows")
    matrix = np.empty((len(jobs), len(FEATURES)))
    matrix[:, 0] = jobs["requested_s"]
    matrix[:, 1] = jobs["procs"]
    matrix[:, 2:] = history[list(HISTORY)]
    return pd.DataFrame(matrix, index=jobs.index, columns=list(FEATURES), copy=False)
