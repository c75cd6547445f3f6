"""Tables as files: Parquet with the kind of table and a format version, and text in CSV.

Parquet is written atomically with zstd. The metadata is one JSON object under the schema key ``queuecast``. A file of
another kind or format is refused with one line.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import Damaged, InputError
from features.jobs.schema import JOBS_FORMAT
from pipelines.lake.places import opened as opened_at
from pipelines.lake.places import replacing, writing
from pipelines.readers.text import opened, unreadable
from sim.schedule import Schedule

_KEY = b"queuecast"


def write_parquet(
    frame: pd.DataFrame,
    path: str | Path,
    *,
    kind: str,
    metadata: Mapping[str, Any],
) -> None:
    """Write ``frame`` (without its index) atomically.

    ``metadata`` is anything JSON can hold. Raises InputError if the disk refuses it.
    """
    table = pa.Table.from_pandas(frame, preserve_index=False)
    header = {"kind": kind, "format": JOBS_FORMAT, "metadata": dict(metadata)}
    text = json.dumps(header, default=_plain)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: text.encode()})
    with writing(path), replacing(Path(path) if isinstance(path, str) else path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_parquet(path: str | Path, *, kind: str, content: bytes | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table and metadata given to :func:`write_parquet`, or raise InputError.

    ``content`` is that of ``path``, if it was read already.
    """
    with told_of(path), opened(path) if content is None else BytesIO(content) as file:
        table = _validated(file)
        text = (table.schema.metadata or {}).get(_KEY)
        header = None if text is None else json.loads(text)
    if header is None:
        raise InputError(f"{path}: is a Parquet file that Queuecast did not write: its metadata do not say what it holds")
    if not isinstance(header, dict) or [type(header.get(key)) for key in ("kind", "format", "metadata")] != [str, int, dict]:
        raise Damaged(f"{path}: is damaged: its metadata cannot be read")
    if header["kind"] != kind:
        raise InputError(f"{path}: holds {header['kind'][:40]}, not {kind}")
    if header["format"] != JOBS_FORMAT:
        mend = "make it anew" if header["format"] < JOBS_FORMAT else "update Queuecast"
        raise InputError(f"{path}: is in format {header['format']:.6g}, and this version reads format {JOBS_FORMAT}: {mend}")
    with told_of(path):
        frame = table.to_pandas()
        for name in frame.columns[frame.dtypes == "category"]:
            if len(frame[name].cat.categories) == 0:  # Arrow loses the string type of empty categories
                frame[name] = pd.Categorical.from_codes(frame[name].cat.codes, categories=pd.Index([], dtype="str"))
    return frame, header["metadata"]


def read_foreign(path: str | Path) -> pd.DataFrame:
    """Read any program's table; raise InputError if it is damaged or beyond the limits."""
    with told_of(path), opened(path) as file:
        return _validated(file).to_pandas()


def _validated(file: BinaryIO) -> pa.Table:
    """Return the table of a file, after a check of its UTF-8 texts and category codes.

    Arrow gets a copy of the bytes: if an Arrow thread holds memory of Python when the interpreter ends, the process
    aborts.
    """
    copy = pa.BufferOutputStream()
    copy.write(file.read())
    table = pq.read_table(pa.BufferReader(copy.getvalue()))
    table.validate(full=True)
    return table


def schema_of(path: str | Path) -> pa.Schema:
    """Return the columns of a table with their metadata; reads only the end of an object."""
    place = Path(path) if isinstance(path, str) else path
    with told_of(path), opened_at(place) as file:
        return pq.read_schema(file)


@contextmanager
def told_of(path: str | Path) -> Iterator[None]:
    """Turn errors of Arrow and pandas about damaged bytes into InputErrors of one line."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if error.errno:
            raise unreadable(path, error) from error
        raise _damaged(path, error) from error
    except Exception as error:  # of Arrow and pandas, about bytes that are damaged
        raise _damaged(path, error) from error


def _damaged(path: str | Path, error: Exception) -> Damaged:
    deep = isinstance(error, RecursionError)
    message = "its metadata are nested too deeply" if deep else " ".join(str(error).split())
    return Damaged(f"{path}: is damaged or not a Parquet file: {message[:150]}{'...' * (len(message) > 150)}")


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"metadata cannot hold {type(value).__name__}")


_DIGITS = 12
"""Significant digits of a figure. Processors that add up in another order differ in the last of the sixteen that a
float has."""


def figures_text(table: pd.DataFrame) -> str:
    """Return a table of figures as :func:`csv_text` does, the same on every processor."""
    return csv_text(table.apply(_rounded))


def _rounded(column: pd.Series) -> pd.Series:
    """Round a column of fractions to significant digits; leave any other column as it is."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind != "f":
        return column
    return pd.Series([float(f"{value:.{_DIGITS}g}") for value in column], column.index, column.dtype)


def csv_text(table: pd.DataFrame) -> str:
    """Return ``table`` without its index as CSV."""
    return table.to_csv(index=False, lineterminator="\n")


_ROW = ["job_id", "submit_s", "start_s", "end_s", "procs", "predicted_s", "corrections"]
_OF_SITES = ("started_by", "nodes")
"""Columns of a replay of a site."""
_ENDING = ".parquet"


def check_ending(option: str, path: Path) -> None:
    """Raise InputError for another ending than .parquet."""
    if path.suffix.lower() != _ENDING:
        raise InputError(f"{option} {path}: schedules are written as Parquet: its name must end in {_ENDING}")


def write_schedules(path: Path, schedules: Sequence[Schedule], metadata: dict[str, Any]) -> None:
    """Write ``schedules`` atomically; raise InputError if the disk refuses it."""
    rows = pd.concat([_rows(schedule) for schedule in schedules], ignore_index=True)
    write_parquet(rows, path, kind="schedules", metadata=metadata)


def _rows(schedule: Schedule) -> pd.DataFrame:
    rows = schedule.jobs[[*_ROW, *(name for name in _OF_SITES if name in schedule.jobs)]].copy()
    rows.insert(0, "predictor", schedule.predictor)
    rows.insert(0, "scheduler", schedule.scheduler)
    return rows
