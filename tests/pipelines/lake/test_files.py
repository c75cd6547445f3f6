"""Parquet that says what it is: what is kept comes back, what is older, newer or other is refused, and writes are whole or nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.errors import InputError
from features.jobs.schema import JOBS_FORMAT, Trace
from pipelines.lake import files
from pipelines.lake.files import read_parquet, write_parquet
from pipelines.readers.canonical import read_canonical, write_canonical
from pipelines.readers.swf import parse_swf
from pipelines.readers.text import Source

FRAME = pd.DataFrame(
    {
        "job_id": [3, 1],
        "wait_s": pd.array([5, None], dtype="Int64"),
        "status": pd.array([None, 1], dtype="Int8"),
        "user": pd.Categorical(["b", None], categories=pd.Index(["c", "b", "a"], dtype="str")),
        "queue": pd.Categorical([None, None], categories=pd.Index([], dtype="str")),
        "rule": pd.array(["x", None], dtype="str"),
        "predicted_s": [1.5, np.nan],
    }
)


def trace() -> Trace:
    head, job = (
        "; MaxProcs: 64\n; UnixStartTime: 5\n; TimeZoneString: Europe/Berlin\n",
        "1 0 -1 5 4 -1 -1 4 60 -1 1 3 -1 7 1 2 1 1 9\n",
    )
    text = head + job + job.replace("1 3", "1 10").replace("1", "2", 1)
    return parse_swf(Source("logs/A b.swf", text.encode(), "ab" * 32))


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        read_parquet(path, **options) if options else read_canonical(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_compressed_table_comes_back_with_types_categories_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "new" / "table.parquet"
    metadata = {"procs": np.int64(5), "share": np.float64(0.5), "none": None, "list": ["a"], "nested": {"b": True}, "text": "ü\n"}
    write_parquet(FRAME, path, kind="things", metadata=metadata)
    frame, stored = read_parquet(path, kind="things")
    pd.testing.assert_frame_equal(frame, FRAME)
    assert stored == {"procs": 5, "share": 0.5, "none": None, "list": ["a"], "nested": {"b": True}, "text": "ü\n"}
    assert frame["user"].cat.categories.tolist() == ["c", "b", "a"]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_parquet(FRAME, tmp_path / name, kind="things", metadata={"x": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_kinds_and_formats_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    write_parquet(FRAME, path, kind="things", metadata={})
    assert refusal(path, kind="jobs") == f"{path}: holds things, not jobs"
    for number, mend in ((JOBS_FORMAT - 1, "make it anew"), (JOBS_FORMAT + 1, "update Queuecast")):
        monkeypatch.setattr(files, "JOBS_FORMAT", number)
        write_parquet(FRAME, path, kind="things", metadata={})
        monkeypatch.undo()
        expected = f"{path}: is in format {number}, and this version reads format {JOBS_FORMAT}: {mend}"
        assert refusal(path, kind="things") == expected


def test_what_queuecast_did_not_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    assert refusal(path, kind="things") == f"{path}: no such file"
    assert refusal(tmp_path, kind="things") == f"{tmp_path}: is a directory, not a file"
    FRAME.to_parquet(path)
    assert (
        refusal(path, kind="things")
        == f"{path}: is a Parquet file that Queuecast did not write: its metadata do not say what it holds"
    )
    write_parquet(FRAME, path, kind="things", metadata={})
    path.write_bytes(path.read_bytes()[:-20])
    assert refusal(path, kind="things").startswith(f"{path}: is damaged or not a Parquet file: ")
    deep = pa.Table.from_pandas(FRAME).replace_schema_metadata({"queuecast": "[" * 100_000})
    pq.write_table(deep, path)
    assert refusal(path, kind="things").endswith("its metadata are nested too deeply")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    write_parquet(FRAME, path, kind="things", metadata={})
    old = path.read_bytes()

    def full(table: pa.Table, where: Path, **_: object) -> None:
        where.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.pq, "write_table", full)
    with pytest.raises(InputError) as caught:
        write_parquet(FRAME, path, kind="things", metadata={})
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_a_canonical_trace_is_named_by_its_file_and_remembers_its_source(tmp_path: Path) -> None:
    path = tmp_path / "Other Name.parquet"
    write_canonical(trace(), path)
    again = read_canonical(path)
    expected = replace(trace(), name="other-name", source=str(path), header={"Source": "logs/A b.swf", **trace().header})
    for column in fields(again):
        if column.name != "jobs":
            assert getattr(again, column.name) == getattr(expected, column.name)
    pd.testing.assert_frame_equal(again.jobs, trace().jobs)
    assert again.notes[0] == "Job lines of which columns after the 18th are not read: 2."
    write_canonical(again, path)
    assert read_canonical(path).header == again.header


def test_a_canonical_trace_without_all_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_canonical(replace(trace(), jobs=trace().jobs.drop(columns=["user", "wait_s"])), path)
    assert refusal(path) == f"{path}: lacks columns user, wait_s"
    write_canonical(replace(trace(), jobs=trace().jobs.assign(memory=1)), path)
    assert refusal(path) == f"{path}: has the unknown columns memory"
    write_canonical(replace(trace(), jobs=trace().jobs.assign(wait_s="long")), path)
    assert refusal(path).startswith(f"{path}: a column has a wrong type: ")
    write_parquet(FRAME, path, kind="things", metadata={})
    assert refusal(path) == f"{path}: holds things, not trace"
