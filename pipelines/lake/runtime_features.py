"""The table ``runtime_features``: what was known at each submission, from which starts."""

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.runtime_features import FEATURES
from models.registry.accounting import Accounting, accounting
from pipelines.lake.tables import Lake
from sim.starts.history_starts import history_starts

KEYS = ("job_id", "user", "submit_s")


def features_of(clean: CleanTrace) -> Accounting:
    """Return the accounting of a cleaned trace, whose features are computed now."""
    start_s, source = history_starts(clean.jobs, clean.procs)
    return accounting(clean.jobs, start_s, clean.origin_unix_s, clean.timezone, source)


def keep_features(lake: Lake, clean: CleanTrace) -> Accounting:
    """Write ``runtime_features`` of ``clean`` with its starts, and return its accounting."""
    records = features_of(clean)
    table = pd.concat([clean.jobs[list(KEYS)], records.features], axis=1).assign(start_s=records.start_s)
    lake.write_for(clean, "runtime_features", table, {"starts": records.source})
    return records


def read_features(lake: Lake, clean: CleanTrace) -> Accounting:
    """Return the accounting of ``clean`` with ``runtime_features`` as the lake keeps it."""
    table, marks = lake.read_for(clean, "runtime_features")
    start_s = table["start_s"].to_numpy(np.int64)
    return Accounting(clean.jobs, start_s, table[list(FEATURES)], clean.origin_unix_s, clean.timezone, marks["starts"])
