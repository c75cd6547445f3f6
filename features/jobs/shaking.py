"""Input shaking: the same jobs, submitted some seconds earlier or later.

A schedule is chaotic: a job that comes a minute later can change the wait of every later job. One replay is therefore one sample
of many, and a difference between two policies may be chance. Tsafrir & Feitelson, "Instability in parallel job scheduling
simulation: the role of workload flurries" (IPDPS 2006), show how large such effects are; Tsafrir, Ouaknine & Feitelson, "Reducing
performance evaluation sensitivity and variability by input shaking" (MASCOTS 2007), answer with many replays of a slightly
changed input.
"""

from __future__ import annotations

import numpy as np

from features import limits
from features.deferred import pd
from features.errors import InputError
from features.jobs.dependencies import preceding_rows


def moves(jobs: int, shake_s: int, seed: int) -> np.ndarray:
    """Draw each job's move in seconds, int64 [jobs]: uniform in -shake_s..shake_s.

    Every seed moves jobs, 0 too; only ``shake_s`` = 0 leaves a trace as recorded. Raises InputError for a negative number.
    """
    if not 0 <= shake_s <= limits.SECONDS:
        raise InputError(f"submissions cannot be moved by up to {shake_s} s: give 0 (no moves) to {limits.SECONDS}")
    if seed < 0:
        raise InputError(f"seed {seed}: must be 0 or more")
    return np.random.default_rng(seed).integers(-shake_s, shake_s, jobs, endpoint=True)


def shaken(jobs: pd.DataFrame, by_s: np.ndarray, dependencies: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
    """Move submissions by ``by_s`` seconds; return the reordered jobs and their former rows.

    The result is in order of the moved submissions; jobs moved to the same second keep the order of the table. All other columns
    stay as recorded. A recorded wait is kept, so the recorded start moves with its job. With ``dependencies`` no job is moved
    before its preceding job.
    """
    submit = jobs["submit_s"].to_numpy(np.int64) + by_s
    if dependencies:
        for row, preceding in enumerate(preceding_rows(jobs).row.tolist()):
            if preceding >= 0:
                submit[row] = max(submit[row], submit[preceding])
    rows = np.argsort(submit, kind="stable")
    return jobs.assign(submit_s=submit).iloc[rows].reset_index(drop=True), rows
