"""User histories: what was known of each job's user at submission, from which starts."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.cleaning import CleanTrace
from features.jobs.history import history, model_inputs
from features.jobs.schema import recorded_end_s
from models.registry.accounting import Accounting
from pipelines.storage.lake import Lake
from sim.history_starts import history_starts


@dataclass(frozen=True)
class History:
    """What was known of each job's user at submission, one row per job.

    It is computed from ``start_s``; ``source`` says whether these starts were recorded or simulated.
    """

    table: pd.DataFrame
    start_s: np.ndarray
    source: str


def user_history(clean: CleanTrace) -> History:
    """Return the user history of a cleaned trace, one row per job in order of submission."""
    start, source = history_starts(clean.jobs, clean.procs)
    local = local_clock_s(clean.jobs["submit_s"].to_numpy(), clean.origin_unix_s, clean.timezone)
    return History(history(clean.jobs, start, local, recorded_end_s(clean.jobs, start)), start, source)


def keep_history(lake: Lake, clean: CleanTrace) -> History:
    """Write the user history of ``clean`` with its starts, and return it."""
    users = user_history(clean)
    lake.write_for(clean, "user_history", users.table.assign(start_s=users.start_s), {"starts": users.source})
    return users


def read_history(lake: Lake, clean: CleanTrace) -> History:
    """Return the user history that the lake keeps of ``clean``."""
    table, marks = lake.read_for(clean, "user_history")
    return History(table.drop(columns="start_s"), table["start_s"].to_numpy(np.int64), marks["starts"])


def whole_accounting(clean: CleanTrace, users: History) -> Accounting:
    """Return the accounting of the whole trace, with its user history as model inputs."""
    return Accounting(clean.jobs, users.start_s, model_inputs(clean.jobs, users.table), clean.origin_unix_s, clean.timezone)
