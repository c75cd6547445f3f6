"""Accounting at an instant: the ended jobs of a trace, for training and snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.history import history, model_inputs
from features.jobs.schema import recorded_end_s
from features.jobs.snapshot import snapshot
from models.packed.snapshot_inputs import KNOWN, History

REMEMBERED_JOBS = 100_000
"""Max number of ended jobs, the most recent, that a model is trained on: more cost time and no longer improve its accuracy."""


@dataclass(frozen=True)
class Accounting:
    """Ended jobs: a cleaned canonical table, starts int64 [jobs], and model inputs.

    The table is in order of submission. Ends are those recorded, although the runtimes that models learn are cut at the request.
    ``inputs`` (``features.jobs.history.model_inputs``) are those known at each submission, from histories up to that second.
    ``origin_unix_s`` and ``timezone`` as in ``features.clock``.
    """

    jobs: pd.DataFrame
    start_s: np.ndarray
    inputs: pd.DataFrame
    origin_unix_s: int | None = None
    timezone: str | None = None
    end_s: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "end_s", recorded_end_s(self.jobs, self.start_s))

    @property
    def until_s(self) -> int:
        """Return the last end."""
        return int(self.end_s.max())

    def ended(self, at_s: int) -> np.ndarray:
        """Return rows of the jobs that had ended by ``at_s``."""
        return np.flatnonzero(self.end_s <= at_s)

    def then(self, at_s: int) -> Accounting:
        """Return the accounting as of ``at_s``, without later knowledge."""
        rows = self.ended(at_s)
        return accounting(self.jobs.iloc[rows], self.start_s[rows], self.origin_unix_s, self.timezone)

    def snapshot(self, at_s: int) -> pd.DataFrame:
        """Return ``features.jobs.snapshot.snapshot`` as of a night at ``at_s``."""
        rows = self.ended(at_s)
        return snapshot(self.jobs.iloc[rows], self.start_s[rows], at_s, self.end_s[rows])

    def asked(self, rows: np.ndarray) -> pd.DataFrame:
        """Return the jobs ``rows`` as submitted.

        Columns: ``user group executable procs requested_s submit_s local_s``.
        """
        jobs = self.jobs.iloc[rows]
        submit = jobs["submit_s"].to_numpy(np.int64)
        people = {name: jobs[name].astype(object).to_numpy() for name in ("user", "group", "executable")}
        numbers = {name: jobs[name].to_numpy(np.int64) for name in ("procs", "requested_s")}
        local = local_clock_s(submit, self.origin_unix_s, self.timezone)
        return pd.DataFrame({**people, **numbers, "submit_s": submit, "local_s": local}, index=jobs.index)

    def served_inputs(self, rows: np.ndarray, at_s: int) -> pd.DataFrame:
        """Return model inputs of the jobs ``rows`` from the snapshot at ``at_s``."""
        no_users_yet = History([], np.empty((0, len(KNOWN))), None)
        users = History.from_frame(self.snapshot(at_s)) if len(self.ended(at_s)) else no_users_yet
        return users.inputs(self.asked(rows))


def accounting(
    jobs: pd.DataFrame, start_s: np.ndarray, origin_unix_s: int | None = None, timezone: str | None = None
) -> Accounting:
    """Return :class:`Accounting` of ended jobs; errors as in ``features.jobs.history``."""
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), origin_unix_s, timezone)
    past = history(jobs, start_s, local, recorded_end_s(jobs, start_s))
    return Accounting(jobs, start_s, model_inputs(jobs, past), origin_unix_s, timezone)
