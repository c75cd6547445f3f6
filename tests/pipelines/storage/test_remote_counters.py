"""Counters at an object store: parts by put, the ledger by conditional put, row groups by ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipelines.storage.pointer import Pointer

from features.errors import InputError
from pipelines.ingest.ldms_ingest import IngestReport, ingest_counters, read_quarantine
from pipelines.storage import counters_change, counters_parts, places, remote
from pipelines.storage.counters_change import changing
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.remote import Overtaken
from pipelines.storage.run_store import TYPES, application_types, keep
from tests.pipelines.storage.conftest import on_both, on_s3
from tests.support.stores import counted, later

DAY = "1970-01-01"


@pytest.fixture
def ingested(store: Path, tmp_path: Path) -> Callable[..., IngestReport]:
    """Ingest rows (time, node, value) of sampler s as one more file."""

    logs = tmp_path / "logs"
    logs.mkdir()

    def ingest(*rows: tuple[float, str, object], text: str | None = None) -> IngestReport:
        path = logs / f"log{len([*logs.iterdir()])}"
        lines = [f"{when:.6f},0,{node},1,0,{value}" for when, node, value in rows] if text is None else [text]
        path.write_text("\n".join(["#Time,Time_usec,ProducerName,component_id,job_id,a", *lines]) + "\n")
        return ingest_counters(opened(store), [path], sampler="s")

    return ingest


def opened(store: Path) -> CountersStore:
    return CountersStore(store / "lake", "quartz")


def values(counters: CountersStore, **wanted: object) -> list[float]:
    return [value for batch in counters.batches("s", **wanted) for value in batch["a"].to_pylist()]  # type: ignore[arg-type]


def objects(store: Path) -> set[str]:
    return {name for name in remote.listed(opened(store).root) if "part-" in name}


@pytest.mark.slow
@on_both
def test_what_comes_in_is_read_and_broken_files_are_told(store: Path, ingested: Callable[..., IngestReport]) -> None:
    ingested((1, "a", 1), (86_400, "b", 3))
    report = ingested((2, "a", 2), (1, "a", 1), (1, "b", 7))
    assert (report.samplers["s"].rows, report.samplers["s"].duplicates) == (2, 1)
    ingested(text="lots")
    assert read_quarantine(opened(store))["line"].tolist() == [2]
    assert values(opened(store)) == [1, 7, 2, 3]
    assert values(opened(store), nodes=["b"]) == [7, 3]
    assert values(opened(store), start_s=1.5, end_s=9) == [2]
    assert opened(store).coverage("s")["rows"].tolist() == [3, 1]


@pytest.mark.slow
def test_parts_that_were_replaced_stay_for_readers_and_then_go(
    store: Path, ingested: Callable[..., IngestReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places.Store, "unlisted_s", 0.0)
    for number in range(1, 4):
        ingested((number, "a", number), (100 + number, "a", number))
    reading = opened(store).batches("s")
    first = next(reading)["a"].to_pylist()
    before = objects(store)
    later(monkeypatch, 30)  # they were put a month ago
    monkeypatch.setattr(counters_change, "_DEEP", -3)
    with changing(opened(store)) as change:
        assert change.compact("s", DAY)
    ingested((200, "a", 9))
    assert before < objects(store)
    assert first + [value for batch in reading for value in batch["a"].to_pylist()] == [1, 2, 3] * 2
    later(monkeypatch, 31.1)
    ingested((201, "a", 9))
    assert not before & objects(store)
    assert values(opened(store)) == [1, 2, 3, 1, 2, 3, 9, 9]
    assert {part.file for part in opened(store).parts("s")} <= objects(store)


@pytest.mark.slow
def test_of_two_writers_on_different_machines_one_is_told_and_nothing_is_lost(
    store: Path, tmp_path: Path, ingested: Callable[..., IngestReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested((1, "a", 1))
    save, others = CountersStore.publish, []

    def saving(self: CountersStore, *given: object) -> None:
        if not others:
            others.append(True)
            with monkeypatch.context() as patch:
                patch.setenv("QUEUECAST_HOME", str(tmp_path / "elsewhere"))  # other lock files
                ingested((2, "a", 2))
        save(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(CountersStore, "publish", saving)
    with pytest.raises(Overtaken, match="was published after variability ingest had begun: begin again") as error:
        ingested((3, "a", 3))
    assert "\n" not in str(error.value)
    assert values(opened(store)) == [1, 2]
    ingested((3, "a", 3))
    assert values(opened(store)) == [1, 2, 3]


@pytest.mark.slow
def test_what_a_killed_process_put_goes_after_its_time(
    store: Path, ingested: Callable[..., IngestReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Pointer, *given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Pointer, "put", killed)
        with pytest.raises(KeyboardInterrupt):
            ingested((1, "a", 1))
    left = objects(store)
    assert len(left) == 1
    assert opened(store).samplers == ()
    ingested((2, "a", 2))
    assert left < objects(store)
    later(monkeypatch, 1.1)
    ingested((3, "a", 3))
    assert not left & objects(store)
    assert values(opened(store)) == [2, 3]


@pytest.mark.slow
@on_s3
def test_counters_are_read_by_ranges_of_what_is_wanted(
    store: Path, ingested: Callable[..., IngestReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most twice the bytes of the footers and of the column chunks of row groups that have any of it."""
    monkeypatch.setattr(counters_change, "group_rows", lambda columns: 400)
    rng = np.random.default_rng(0)
    ingested(*((1 + number // 10, f"n{number % 10}", rng.integers(1 << 50)) for number in range(8_000)))
    ingested(*((900 + number, "other", rng.integers(1 << 50)) for number in range(400)))
    parts = opened(store).parts("s")
    whole = {part.file: pq.read_metadata(pa.BufferReader(remote.seen(opened(store).path(part)).content)) for part in parts}

    def needed(*files: str, columns: int, groups: int) -> int:
        """Return the bytes of a footer and of the first row groups, which are alike."""
        return sum(
            next(part.footer for part in parts if part.file == file)
            + sum(
                whole[file].row_group(group).column(place).total_compressed_size
                for group in range(groups)
                for place in range(columns)
            )
            for file in files
        )

    big, small = sorted(whole, key=lambda file: -whole[file].num_rows)
    for wanted, rows, least in (
        ({"start_s": 81, "end_s": 100}, 190, needed(big, columns=3, groups=1)),
        ({"nodes": ["other"]}, 400, needed(small, columns=3, groups=1) + needed(big, columns=0, groups=0)),
        ({"end_s": 100, "metrics": []}, 990, needed(big, columns=2, groups=3)),
    ):
        counters_parts.footer.cache_clear()
        counters = opened(store)
        with monkeypatch.context() as patch:
            asked = counted(store, patch)
            assert sum(batch.num_rows for batch in counters.batches("s", **wanted)) == rows  # type: ignore[arg-type]
        assert {each.method for each in asked} == {"get_object"}
        assert least <= sum(each.bytes for each in asked) <= 2 * least
        assert len(asked) <= 4


@pytest.mark.slow
@on_s3
def test_a_part_that_was_cut_is_told_in_one_line(store: Path, ingested: Callable[..., IngestReport]) -> None:
    ingested((1, "a", 1))
    (part,) = opened(store).parts("s")
    place = opened(store).path(part)
    remote.put(place, (remote.seen(place).content or b"")[:-30])
    counters_parts.footer.cache_clear()
    with pytest.raises(InputError, match="is damaged") as error:
        values(opened(store))
    assert "\n" not in str(error.value)
    remote.remove(place)
    with pytest.raises(InputError, match="is gone since the ledger was read"):
        values(opened(store))


@pytest.mark.slow
def test_rows_of_two_that_add_to_a_table_at_once_are_all_there(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, others = Lake.write, []

    def types(*names: str) -> pd.DataFrame:
        return pd.DataFrame({"application": names, "type": "io"})

    def writing(self: Lake, *given: object, **options: object) -> Path:
        if not others:
            others.append(True)
            with monkeypatch.context() as patch:
                patch.setenv("QUEUECAST_HOME", str(tmp_path / "elsewhere"))
                keep(lake, TYPES, "q", types("theirs"))
        return write(self, *given, **options)  # type: ignore[arg-type]

    lake = Lake(store / "lake")
    monkeypatch.setattr(Lake, "write", writing)
    assert keep(lake, TYPES, "q", types("ours")).added == 1
    assert [*application_types(lake, "q")] == ["ours", "theirs"]
