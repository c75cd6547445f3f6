"""The predictor ``table:FILE``: predictions from a CSV or Parquet file.

Columns ``job_id`` and ``predicted_s``, one row per job.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from features.errors import InputError
from models.runtime.protocol import TablePredictor
from pipelines.ingest.people_tables import read_table, refuse

PREFIX = "table:"


def table_predictor(name: str, jobs: pd.DataFrame) -> TablePredictor:
    """Return the predictor called ``table:FILE`` for the jobs of a trace.

    Jobs dropped from the trace may be in the file too. Raises InputError for a cell that is not a number, a job given twice, and
    a job of the trace that is not in the file.
    """
    path = Path(name.removeprefix(PREFIX))
    table, head, place = read_table(path, ("job_id", "predicted_s"))
    numbers = {each: pd.to_numeric(table[each], errors="coerce") for each in ("job_id", "predicted_s")}
    job_id = numbers["job_id"].astype("float64")
    refuse(place, table["job_id"], ~(job_id.abs() < 2.0**53) | (job_id % 1 != 0), "is not a job's number")
    refuse(place, table["predicted_s"], ~np.isfinite(numbers["predicted_s"]), "is not a number of seconds")
    given = pd.Series(numbers["predicted_s"].to_numpy(np.float64), index=numbers["job_id"].to_numpy(np.int64))
    refuse(place, table["job_id"], pd.Series(given.index.duplicated()), "is given before")
    seconds = given.reindex(jobs["job_id"].to_numpy(np.int64)).to_numpy()
    missing = np.isnan(seconds)
    if missing.any():
        first = jobs["job_id"].iloc[int(np.argmax(missing))]
        raise InputError(f"{head}: predicts nothing for {int(missing.sum()):,} of {len(jobs):,} jobs, the first is job {first}")

    def estimate(asked: pd.DataFrame) -> np.ndarray:
        return given.reindex(asked["job_id"].to_numpy(np.int64)).to_numpy()

    return TablePredictor(name, estimate)
