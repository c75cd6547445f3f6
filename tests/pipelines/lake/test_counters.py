"""The counters store: every row once and in order however it came in, and a store that is as it was or as it should be, never between."""

from __future__ import annotations

import gzip
import hashlib
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from pipelines.lake import counters, places
from pipelines.lake.counters import KEYS, CountersStore, schema_of
from pipelines.readers.ldms import blocks as ldms
from pipelines.readers.ldms import files as ldms_files
from pipelines.readers.ldms.ingest import IngestReport, ingest_counters

HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"
DAY_S = 86_400
OVER = "(over 1% of the lines are damaged)"


def log(path: Path, rows: list[tuple[float, str, object]] | list[str], metrics: str = "a") -> Path:
    """A store_csv file of rows (time, node, value or values)."""
    lines = [row if isinstance(row, str) else f"{row[0]:.6f},0,{row[1]},1,0,{row[2]}" for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"{HEAD},{metrics}", *lines]) + "\n")
    return path


def store(tmp_path: Path) -> CountersStore:
    return CountersStore(tmp_path / "lake", "quartz")


def ingest(tmp_path: Path, *paths: Path) -> IngestReport:
    return ingest_counters(store(tmp_path), paths, sampler="s")


def content(tmp_path: Path, sampler: str = "s", **span: float) -> pd.DataFrame:
    here = store(tmp_path)
    batches = list(here.batches(sampler, **span))
    table = pa.Table.from_batches(batches) if batches else schema_of(here.metrics(sampler)).empty_table()
    return table.to_pandas().astype({"node": "str"})


def bytes_of(tmp_path: Path) -> dict[str, str]:
    """Every file of the lake but locks, by its SHA-256."""
    lake = tmp_path / "lake"
    files = [path for path in lake.rglob("*") if path.is_file() and path.suffix not in ("", ".lock", ".readers")]
    return {str(path.relative_to(lake)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_rows_land_in_their_sampler_and_day_sorted_by_time_and_node(tmp_path: Path) -> None:
    rows = [(DAY_S + 1, "b", 1), (DAY_S + 1, "a", 2), (2 * DAY_S, "a", 3), (DAY_S - 0.000001, "a", 4), (DAY_S, "b", 5)]
    report = ingest(tmp_path, log(tmp_path / "log", rows))
    assert store(tmp_path).days("s") == ("1970-01-01", "1970-01-02", "1970-01-03")
    table = content(tmp_path)
    assert list(table.itertuples(index=False, name=None)) == sorted((when, node, float(value)) for when, node, value in rows)
    tally = report.samplers["s"]
    assert (tally.files, tally.rows, tally.values, tally.nulls) == (1, 5, 5, 0)
    assert (tally.nodes, len(tally.days)) == ({"a", "b"}, 3)
    schema = next(store(tmp_path).batches("s")).schema
    assert [schema.field(0).type, schema.field(1).type, schema.field(2).type] == [KEYS[0].type, KEYS[1].type, pa.float64()]


rows_of_a_log = st.lists(
    st.tuples(st.integers(DAY_S - 5, DAY_S + 5), st.sampled_from("abc"), st.sampled_from(["1", "2", "", "nan"])),
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=4)
@given(
    st.lists(st.tuples(rows_of_a_log, st.sampled_from(["a", "b"])), min_size=1, max_size=4),
    st.integers(1, 12),
    st.sampled_from([1, 2_000, 1 << 20]),
)
def test_the_first_row_of_a_node_and_time_stays_whatever_files_and_parts_bring(
    tmp_path_factory: pytest.TempPathFactory, logs: list, part_rows: int, held: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("a")
    expected: dict[tuple[float, str], dict[str, float]] = {}
    duplicates = contradictions = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "part_rows", lambda columns: part_rows)
        patch.setattr(counters, "GROUP_BYTES", 100)
        patch.setattr(counters, "HELD_BYTES", held)
        patch.setattr(ldms, "BLOCK", 150)
        for number, (rows, metric) in enumerate(logs):
            lines = [f"{when},0,{node},1,{number},{text}" for when, node, text in rows]  # no file continues another
            report = ingest(tmp_path, log(tmp_path / f"log{number}", lines, metric))
            for when, node, text in rows:
                value = {metric: float(text or "nan")}
                old = expected.setdefault((when, node), value)
                if old is not value:
                    agree = np.isnan(value[metric]) or old.get(metric, np.nan) == value[metric]
                    duplicates += agree
                    contradictions += not agree
            duplicates -= report.samplers["s"].duplicates
            contradictions -= report.samplers["s"].contradictions
    assert (duplicates, contradictions) == (0, 0)
    frame = content(tmp_path)
    assert list(zip(frame.time_s, frame.node, strict=True)) == sorted(expected)
    for row in frame.to_dict("records"):
        for metric in store(tmp_path).metrics("s"):
            np.testing.assert_equal(row[metric], expected[row["time_s"], row["node"]].get(metric, np.nan))
    whole = frame[(frame.time_s >= DAY_S - 2) & (frame.time_s < DAY_S + 3)].reset_index(drop=True)
    pd.testing.assert_frame_equal(content(tmp_path, start_s=DAY_S - 2, end_s=DAY_S + 3), whole)


def test_columns_may_change_between_files_and_are_null_where_a_file_lacks_them(tmp_path: Path) -> None:
    ingest(tmp_path, log(tmp_path / "1", ["1,0,n,1,0,5,7"], "a,b"), log(tmp_path / "2", ["2,0,n,1,0,8,9"], "c,a"))
    assert store(tmp_path).metrics("s") == ("a", "b", "c")
    np.testing.assert_equal(content(tmp_path)[["a", "b", "c"]].to_numpy(), [[5, 7, np.nan], [9, np.nan, 8]])
    only = pa.Table.from_batches(store(tmp_path).batches("s", metrics=["c"]))
    assert only.column_names == ["time_s", "node", "c"]
    with pytest.raises(InputError, match="has no metric x; known: a, b, c"):
        next(store(tmp_path).batches("s", metrics=["x"]))
    with pytest.raises(InputError, match="holds no counters of t, only of s"):
        next(store(tmp_path).batches("t"))


def test_a_file_that_is_known_changes_not_a_byte_under_any_name_packed_or_not(tmp_path: Path) -> None:
    path = log(tmp_path / "log", [(1, "a", 1), (2, "a", 2)])
    ingest(tmp_path, path)
    before = bytes_of(tmp_path)
    packed = tmp_path / "other.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    report = ingest(tmp_path, path, packed)
    assert (report.unchanged, report.ingested, report.samplers) == (2, 0, {})
    assert bytes_of(tmp_path) == before


def test_of_a_growing_file_only_new_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log(tmp_path / "log", [(1, "a", 1), (2, "a", 2)])
    with path.open("a") as file:
        file.write("3,0,a,1,0,3")  # without its end: still being written
    assert ingest(tmp_path, path).unfinished == 1
    assert content(tmp_path)["a"].tolist() == [1, 2]
    with path.open("a") as file:
        file.write(f"3\n4,0,a,1,0,4\n{HEAD},b\n")
    rotated = path.rename(tmp_path / "log.1507711419")
    report = ingest(tmp_path, rotated)
    assert (report.continued, report.samplers["s"].rows, report.samplers["s"].duplicates) == (1, 2, 0)
    assert content(tmp_path)["a"].tolist() == [1, 2, 33, 4]
    with rotated.open("a") as file:
        file.write("5,0,a,1,0,5\nbroken\n")
    report = ingest(tmp_path, rotated)
    assert report.quarantined == [f"{rotated}:8: 1 fields, where the header has 6 {OVER}"]
    rotated.write_text(rotated.read_text().removesuffix("broken\n"))
    assert ingest(tmp_path, rotated).continued == 1
    assert pd.DataFrame(store(tmp_path).files.values())[["rows", "lines"]].to_numpy().tolist() == [[5, 7]]
    np.testing.assert_equal(content(tmp_path)[["a", "b"]].to_numpy()[-1], [np.nan, 5])


def broken_files(tmp_path: Path) -> list[Path]:
    """One of each kind, beside one that is whole: each has good rows too."""
    good = [(number, "x", number) for number in range(1, 50)]
    whole = log(tmp_path / "logs" / "a-good", good)
    log(tmp_path / "logs" / "b-fields", [*good, "60,0,x,1"])
    log(tmp_path / "logs" / "c-text", [*good, "60,0,x,1,0,lots"])
    packed = gzip.compress(whole.read_bytes())
    (tmp_path / "logs" / "d-cut.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "logs" / "e-headless").write_text("60,0,x,1,0,5\n")
    (tmp_path / "logs" / "f-junk").write_bytes(np.random.default_rng(0).bytes(5_000))
    (tmp_path / "logs" / "g-empty").write_bytes(b"")
    return sorted((tmp_path / "logs").iterdir())


def test_broken_files_are_quarantined_with_reason_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldms, "BLOCK", 300)
    monkeypatch.setattr(counters, "HELD_BYTES", 2_000)
    files = broken_files(tmp_path)
    last = log(tmp_path / "z-good", [(100, "y", 1)])
    report = ingest(tmp_path, tmp_path / "logs", last)
    assert content(tmp_path).node.tolist() == ["x"] * 49 + ["y"]
    assert (report.ingested, len(report.quarantined)) == (2, len(files[1:]))
    assert report.quarantined[:4] == [
        f"{files[1]}:51: 4 fields, where the header has 6 {OVER}",
        f"{files[2]}:51: '60,0,x,1,0,lots' is no row of a time, a node and numbers {OVER}",
        f"{files[3]}: truncated: the gzip data end before their end mark",
        f"{files[4]}:1: no header line: '60,0,x,1,0,5' names no column Time, and there is no header file beside it",
    ]
    before = bytes_of(tmp_path)
    ingest(tmp_path, tmp_path / "logs", last)
    assert bytes_of(tmp_path) == before


def test_a_failure_leaves_what_was_and_the_next_run_completes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "part_rows", lambda columns: 4)
    monkeypatch.setattr(counters, "HELD_BYTES", 1_000)
    monkeypatch.setattr(ldms, "BLOCK", 500)
    broken_files(tmp_path)
    rng = np.random.default_rng(0)
    shuffled = [(int(when), node, 1) for when in rng.permutation(40) + 1 for node in "ab"]
    log(tmp_path / "logs" / "h-shuffled", shuffled)
    ingest(tmp_path, log(tmp_path / "first", [(10.5, "x", 7)]))
    old = content(tmp_path)
    moved, real = [], os.replace

    def fails(source: str, target: str) -> None:
        moved.append(target)
        if len(moved) > 3:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(places.os, "replace", fails)
        with pytest.raises(KeyboardInterrupt):
            ingest(tmp_path, tmp_path / "logs")
    assert content(tmp_path).equals(old)
    report = ingest(tmp_path, tmp_path / "logs")
    assert len(report.quarantined) == 6
    frame = content(tmp_path)
    expected = {(10.5, "x"), *((float(when), "x") for when in range(1, 50)), *((float(when), node) for when, node, _ in shuffled)}
    assert list(zip(frame.time_s, frame.node, strict=True)) == sorted(expected)
    named = {str(part.file) for part in store(tmp_path).parts("s")}
    there = {str(path.relative_to(store(tmp_path).root)) for path in store(tmp_path).root.rglob("*.p*")}
    assert named <= there


def test_a_full_disk_is_no_fault_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(tmp_path, log(tmp_path / "one", [(1, "a", 1)]))
    before = bytes_of(tmp_path)

    def full(table: pa.Table, file: object, **_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(counters.pq, "write_table", full)
        with pytest.raises(InputError, match="cannot be written: No space left on device"):
            ingest(tmp_path, log(tmp_path / "two", [(2, "a", 1)]))
    assert bytes_of(tmp_path) == before
    assert ingest(tmp_path, tmp_path / "two").ingested == 1


def test_a_reader_keeps_its_snapshot_while_parts_are_replaced_under_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "part_rows", lambda columns: 5)
    ingest(tmp_path, log(tmp_path / "first", [(number, "a", number) for number in range(1, 19)]))
    late, before = store(tmp_path), store(tmp_path).parts("s")
    reading = store(tmp_path).batches("s")
    first = next(reading)
    ingest(tmp_path, log(tmp_path / "more", [(number, "b", 1) for number in range(1, 19)]))
    assert not set(store(tmp_path).parts("s")) & set(before)
    seen = [first, *reading]
    assert np.concatenate([batch["time_s"].to_numpy() for batch in seen]).tolist() == [*range(1, 19)]
    assert sum(batch.num_rows for batch in late.batches("s")) == 18, "its parts stay for a day"


def test_damaged_lines_and_columns_of_text_are_counted(tmp_path: Path) -> None:
    rows = [f"{number},0,n,1,0,{number},mlx5_0" for number in range(1, 201)]
    path = log(tmp_path / "log", [*rows[:100], "101,0,n,1,", *rows[101:]], "a,devname")
    report = ingest(tmp_path, path)
    assert (report.damaged, dict(report.text_columns), report.samplers["s"].rows) == (1, {"devname": 1}, 199)
    assert pd.DataFrame(store(tmp_path).files.values())[["damaged", "text_columns"]].to_numpy().tolist() == [[1, ["devname"]]]
    with path.open("a") as file:
        file.write("201,0,n,1,0,5,mlx5_1\n")  # a column once known to hold text is text, though it is one cell
    assert ingest(tmp_path, path).quarantined == []
    assert len(content(tmp_path)) == 200


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reading in (ldms, ldms_files):
        monkeypatch.setattr(reading, "BLOCK", 1 << 14)
    monkeypatch.setattr(counters, "PART_BYTES", 1 << 17)
    monkeypatch.setattr(counters, "GROUP_BYTES", 1 << 14)
    monkeypatch.setattr(counters, "HELD_BYTES", 1 << 18)
    peaks = []
    for number, rows in enumerate((4_000, 4_000, 40_000)):
        lines = [f"{1 + row // 100},0,n{row % 100},1,0,{row},{7 * row},0" for row in range(rows)]
        path = log(tmp_path / f"log{number}", lines, f"a,b,c{number}")
        del lines
        here = CountersStore(tmp_path / "lake", f"s{number}")
        tracemalloc.start()
        base = pa.total_allocated_bytes()
        ingest_counters(here, [path], sampler="s")
        most = max((pa.total_allocated_bytes() - base for _ in here.batches("s")), default=0)
        peaks.append(tracemalloc.get_traced_memory()[1] + most)
        tracemalloc.stop()
    assert peaks[2] < 3 * peaks[1] + (1 << 20)
