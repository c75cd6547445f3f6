"""The table ``runtime_features``: what was known at each submission, from which starts."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.cleaning import CleanTrace
from features.jobs.runtime_features import FEATURES, runtime_features
from features.jobs.schema import recorded_end_s
from models.registry.accounting import Accounting
from pipelines.lake.tables import Lake
from sim.starts.history_starts import history_starts

KEYS = ("job_id", "user", "submit_s")


@dataclass(frozen=True)
class Features:
    """What was known at each submission, one row per job: ``KEYS`` and ``FEATURES``.

    It is computed from ``start_s``; ``source`` says whether these starts were recorded or simulated.
    """

    table: pd.DataFrame
    start_s: np.ndarray
    source: str


def features_of(clean: CleanTrace) -> Features:
    """Return what was known of a cleaned trace, one row per job in order of submission."""
    jobs = clean.jobs
    start, source = history_starts(jobs, clean.procs)
    local = local_clock_s(jobs["submit_s"].to_numpy(), clean.origin_unix_s, clean.timezone)
    table = runtime_features(jobs, start, local, recorded_end_s(jobs, start))
    return Features(pd.concat([jobs[list(KEYS)], table], axis=1), start, source)


def keep_features(lake: Lake, clean: CleanTrace) -> Features:
    """Write ``runtime_features`` of ``clean`` with its starts, and return it."""
    features = features_of(clean)
    lake.write_for(clean, "runtime_features", features.table.assign(start_s=features.start_s), {"starts": features.source})
    return features


def read_features(lake: Lake, clean: CleanTrace) -> Features:
    """Return ``runtime_features`` as the lake keeps it of ``clean``."""
    table, marks = lake.read_for(clean, "runtime_features")
    return Features(table.drop(columns="start_s"), table["start_s"].to_numpy(np.int64), marks["starts"])


def whole_accounting(clean: CleanTrace, features: Features) -> Accounting:
    """Return the accounting of the whole trace, with the table's ``features``."""
    return Accounting(clean.jobs, features.start_s, features.table[list(FEATURES)], clean.origin_unix_s, clean.timezone)
