"""Input shaking: the same jobs, submitted some seconds earlier or later.

A schedule is chaotic: a job that comes a minute later can change what every later job waits for. One replay is therefore one draw of
many, and a difference between two policies may be an accident of it. Tsafrir & Feitelson, "Instability in parallel job scheduling
simulation: the role of workload flurries" (IPDPS 2006), show how large such accidents are; Tsafrir, Ouaknine & Feitelson, "Reducing
performance evaluation sensitivity and variability by input shaking" (MASCOTS 2007), answer with many replays of the slightly moved input.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.dependencies import preceding_rows

SHAKE_S = 60
"""By how many seconds submissions are moved at most where shaking is asked for without a number."""


def moves(jobs: int, shake_s: int, seed: int) -> np.ndarray:
    """By how much each of ``jobs`` jobs is moved: whole seconds, uniform in -shake_s..shake_s, int64 [jobs].

    Every seed is a draw, 0 too: a trace is as recorded where ``shake_s`` is 0, and only there. InputError for a negative number.
    """
    if shake_s < 0:
        raise InputError(f"submissions cannot be moved by up to {shake_s} s: give 0, which moves none, or more")
    if seed < 0:
        raise InputError(f"seed {seed}: must be 0 or more")
    return np.random.default_rng(seed).integers(-shake_s, shake_s, jobs, endpoint=True)


def shaken(jobs: pd.DataFrame, by_s: np.ndarray, dependencies: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
    """``jobs`` with submissions moved ``by_s`` seconds, in order of the moved submissions, and the row of each in ``jobs``.

    Jobs moved to the same second stay in the order of the table. All else is as recorded; a recorded wait is kept, so that the recorded start
    moves with its job. With ``dependencies`` no job is moved before the job that it names as its preceding one.
    """
    submit = jobs["submit_s"].to_numpy(np.int64) + by_s
    if dependencies:
        for row, preceding in enumerate(preceding_rows(jobs).row.tolist()):
            if preceding >= 0:
                submit[row] = max(submit[row], submit[preceding])
    rows = np.argsort(submit, kind="stable")
    return jobs.assign(submit_s=submit).iloc[rows].reset_index(drop=True), rows
