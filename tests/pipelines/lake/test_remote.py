"""The lake at a URL: a store of this process, and S3 on this machine, with one lock for all processes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.assets.sensors import alert, alerts_file
from pipelines.lake import versions
from pipelines.lake.locks import Busy, held
from pipelines.lake.places import home, listed, place_of, read, remove, write
from pipelines.lake.publishing import alone
from pipelines.lake.tables import Lake
from pipelines.readers.systems import remember_system, systems
from tests.support.stores import SUBJECT, file_lock, point_at, publish


def number(lake: Lake, table: str = "jobs") -> int:
    return int(lake.read(table, "t")[0]["number"].iloc[0])


@pytest.mark.slow
def test_a_version_is_written_read_and_held_while_others_are_published(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "held", file_lock)
    publish(store, "one", page="one", jobs=1, schedules=1)
    reader = Lake(store / "lake").at_once(SUBJECT)
    for each in (2, 3, 4):
        publish(store, f"run-{each}", page=str(each), jobs=each, schedules=each)
    now = Lake(store / "lake")
    assert (number(now), number(now, "schedules"), number(reader), number(reader, "schedules")) == (4, 4, 1, 1)
    assert (store / "reports" / "t.html").read_text() == "4"
    assert len(listed(store / "lake" / "jobs")) == 4


def test_a_file_is_written_listed_read_and_removed(store: Path) -> None:
    place = store / "folder" / "a.txt"
    assert (read(place), listed(store / "folder")) == (None, {})
    write(place, "one")
    write(place, "two")
    assert (read(place), [*listed(store)]) == (b"two", ["folder/a.txt"])
    remove(place)
    remove(place)
    assert read(place) is None


def test_settings_alerts_and_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    store = place_of(f"memory://{uuid.uuid4().hex}/site")
    remember_system(store, "ours", {"runs": "/data/runs.csv"})
    remember_system(store, "theirs", {"runs": "/data/other.csv"})
    assert [*systems(store)] == ["ours", "theirs"]
    for what in ("a", "b"):
        alert(store, "drift", "t", "2026-01-01", what)
    assert len(alerts_file(store).read_text().splitlines()) == 2
    with alone(store, "t"), pytest.raises(InputError, match="another night or run of t"), alone(store, "t"):
        pass
    with held(store / "x.lock", 0), pytest.raises(Busy), held(store / "x.lock", 0):
        pass


def test_a_url_needs_a_database_for_its_locks() -> None:
    pytest.importorskip("s3fs")
    with pytest.raises(InputError, match="need locks: set QUEUECAST_DATABASE"), held(place_of("s3://bucket/x.lock")):
        pass


@pytest.mark.slow
def test_a_store_that_is_gone_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    point_at("http://127.0.0.1:9", monkeypatch)
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)  # of which each waits
    monkeypatch.setenv("QUEUECAST_LAKE", "s3://nowhere/site/")
    assert str(home()) == "s3://nowhere/site"
    with pytest.raises(
        InputError, match=r"s3://nowhere/site/lake/current/runtime-t.json: the object store does not answer"
    ) as error:
        Lake(home() / "lake").versions(SUBJECT).current()
    assert "\n" not in str(error.value)
    assert "hidden-secret" not in str(error.value)


def test_a_url_with_credentials_and_an_unknown_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"s3://\*\*\*@bucket/x: credentials do not belong in a URL"):
        place_of("s3://key:secret@bucket/x")
    with pytest.raises(InputError, match="nope://x"):
        place_of("nope://x")
    assert place_of(f"file://{tmp_path}/lake") == tmp_path / "lake"
    assert str(place_of(" memory://b//x/ ")) == "memory://b/x"
    for wrong in ("s3://", "s3:///x", "file://localhost/x", "file:x", "simplecache::s3://b/x", "local:///x", "  "):
        with pytest.raises(InputError):
            place_of(wrong)
    assert place_of(str(tmp_path)) == tmp_path
