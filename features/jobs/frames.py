"""Make canonical jobs tables from plain DataFrames."""

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.schema import COLUMNS, REQUIRED, TEXTS, conform

NEEDED = ("submit_s", "runtime_s", "procs")


def jobs_from(frame: pd.DataFrame) -> pd.DataFrame:
    """Make a canonical jobs table from a DataFrame with some of its columns, one row per job.

    ``submit_s``, ``runtime_s`` and ``procs`` are required. Other columns of :data:`features.jobs.schema.COLUMNS` are optional: a
    missing one is null, and a missing ``job_id`` counts the rows from 1. Times are whole seconds. Rows come in order of
    submission, ties in the order of ``frame``. They keep their index labels, so that predictions made from ``frame`` still match
    their jobs. Raises InputError, naming column and row, for a column that is unknown, repeated, or required and missing, for
    times and counts that are not whole numbers of at least 0 (submissions may be below 0), and a missing submission or ``job_id``.

    >>> import pandas as pd
    >>> table = jobs_from(pd.DataFrame({"submit_s": [60, 0], "runtime_s": [5, 9], "procs": [1, 2], "user": ["ann", None]}))
    >>> table[["job_id", "submit_s", "procs"]].values.tolist()
    [[2, 0, 2], [1, 60, 1]]
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"jobs_from makes a jobs table of a DataFrame, not of a {type(frame).__name__}")
    names = [str(name) for name in frame.columns]
    if unknown := [name for name in names if name not in COLUMNS]:
        raise InputError(f"unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"column {twice[0]} appears twice")
    if absent := [name for name in NEEDED if name not in names]:
        raise InputError(f"column {absent[0]} is missing: a job needs {', '.join(NEEDED)}")
    columns: dict[str, object] = {"job_id": np.arange(1, len(frame) + 1)}
    for name in names:
        columns[name] = _text(frame[name]) if name in TEXTS else _whole(frame[name])
    table = conform(columns, len(frame))
    table.index = frame.index
    whole = {name: "int64" for name in REQUIRED if not table[name].isna().any()}
    return table.astype(whole).sort_values("submit_s", kind="stable")


def _text(column: pd.Series) -> pd.Categorical:
    missing = column.isna().to_numpy(bool)
    texts = column.astype(object).map(str).mask(missing, None).to_list()
    return pd.Categorical(pd.array(texts, dtype="str"))


def _whole(column: pd.Series) -> pd.api.extensions.ExtensionArray:
    name = column.name
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        hint = " (seconds since the first: (t - t.min()).dt.total_seconds())" if name == "submit_s" else ""
        raise InputError(f"column {name} is of type {column.dtype}, not of whole numbers{hint}")
    values = column.to_numpy(np.float64, na_value=np.nan)
    missing = np.isnan(values)
    free = name in ("submit_s", "job_id", "preceding_job")
    for wrong, what in (
        (
            ~missing & (~np.isfinite(values) | (np.nan_to_num(values) % 1 != 0) | (np.abs(values) > 2.0**53)),
            "is not a whole number",
        ),
        (~missing & (values < 0) & (not free), "is below 0: leave unknown values empty"),
        (missing & (name in ("submit_s", "job_id")), "is missing"),
        (~missing & (values > 5) & (name == "status"), "is not a status from 0 to 5"),
        (~missing & (values > 1) & (name == "exclusive"), "is neither 0 nor 1"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"row {column.index[row]!r}: {name} {column.iloc[row]!r} {what} ({int(wrong.sum()):,} such rows)")
    numbers = np.where(missing, 0, np.nan_to_num(values)).astype(np.int64)
    return pd.arrays.IntegerArray(numbers, missing)
