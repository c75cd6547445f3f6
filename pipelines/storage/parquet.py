"""Parquet files with kind of table, format version and units in the schema.

Written atomically with zstd. The metadata is one JSON object under the schema key ``queuecast``; a column's unit is under its key
``unit``. A file of another kind or format is refused with one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import InputError
from features.jobs.schema import JOBS_FORMAT
from pipelines.ingest.source import unreadable
from pipelines.storage.atomic import replacing

_KEY = b"queuecast"


def write_parquet(
    frame: pd.DataFrame, path: str | Path, *, kind: str, metadata: Mapping[str, Any], units: Mapping[str, str] | None = None
) -> None:
    """Write ``frame`` (without its index) atomically.

    ``metadata`` is anything JSON can hold, ``units`` by column. Raises InputError where the disk refuses it.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    known = {name: {"unit": unit} for name, unit in (units or {}).items() if unit}
    fields = [field.with_metadata(known[field.name]) if field.name in known else field for field in table.schema]
    stated = {"kind": kind, "format": JOBS_FORMAT, "metadata": dict(metadata)}
    text = json.dumps(stated, default=_plain)
    table = table.cast(pa.schema(fields, {**(table.schema.metadata or {}), _KEY: text.encode()}))
    try:
        with replacing(Path(path)) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_parquet(path: str | Path, *, kind: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table and metadata given to :func:`write_parquet`, else raise InputError."""
    try:
        with open(path, "rb") as file:
            table = pq.read_table(file)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{path}: is damaged or no Parquet file: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise unreadable(path, error) from error
    text = (table.schema.metadata or {}).get(_KEY)
    if text is None:
        raise InputError(f"{path}: is a Parquet file, but none that Queuecast wrote: it does not say what it holds")
    stated = json.loads(text)
    if stated["kind"] != kind:
        raise InputError(f"{path}: holds {stated['kind']}, not {kind}")
    if stated["format"] != JOBS_FORMAT:
        mend = "make it anew" if stated["format"] < JOBS_FORMAT else "update Queuecast"
        raise InputError(f"{path}: is in format {stated['format']}, and this version reads format {JOBS_FORMAT}: {mend}")
    frame = table.to_pandas()
    for name in frame.columns[frame.dtypes == "category"]:
        if len(frame[name].cat.categories) == 0:  # Arrow loses the string type of empty categories
            frame[name] = pd.Categorical.from_codes(frame[name].cat.codes, categories=pd.Index([], dtype="str"))
    return frame, stated["metadata"]


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"metadata cannot hold {type(value).__name__}")
