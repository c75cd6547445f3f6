"""The lake at an object store: versions by put, conditional where the store offers it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.sources.systems import remember_system, systems
from pipelines.storage import drafts, places, remote
from pipelines.storage.alerts import alert, alerts_file
from pipelines.storage.home import home, trusted_home
from pipelines.storage.lake import Lake
from pipelines.storage.locks import Busy, held
from pipelines.storage.parquet import read_parquet, schema_of
from pipelines.storage.places import at, seen, write
from pipelines.storage.publishing import alone
from pipelines.storage.remote import Overtaken, place_of
from pipelines.storage.version import KEEP_H, Version
from pipelines.storage.versions import Versions
from tests.pipelines.storage.conftest import on_both, on_s3
from tests.server.faulty import FaultyProxy
from tests.support.stores import SUBJECT, Asked, counted, point_at, publish, write_numbers


def number(lake: Lake, table: str = "jobs") -> int:
    return int(lake.read(table, "t")[0]["number"].iloc[0])


@pytest.mark.slow
@on_both
def test_a_version_is_written_read_and_held_while_others_are_published(store: Path) -> None:
    publish(store, "one", page="one", jobs=1, schedules=1)
    reader = Lake(store / "lake").at_once(SUBJECT)
    for each in (2, 3, 4):
        publish(store, f"run-{each}", page=str(each), jobs=each, schedules=each)
    now = Lake(store / "lake")
    assert (number(now), number(now, "schedules"), number(reader), number(reader, "schedules")) == (4, 4, 1, 1)
    assert (store / "reports" / "t.html").read_text() == "4"
    assert [
        version.files["jobs"] != now.versions(SUBJECT).current().files["jobs"]
        for _, version in now.versions(SUBJECT).pointer.replaced()
    ] == [
        True,
        True,
    ]


@pytest.mark.slow
@on_both
def test_what_nothing_lists_is_collected_after_its_time(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEEP_H, "0")
    monkeypatch.setattr(places.Store, "unlisted_s", 0.0)
    for each in (1, 2, 3, 4):
        publish(store, f"run-{each}", jobs=each)
        monkeypatch.setattr(time, "time", lambda real=time.time: real() + 5)
    assert len(list((store / "lake" / "jobs" / "t").iterdir())) == 2
    assert number(Lake(store / "lake")) == 4


@pytest.mark.slow
def test_pages_follow_the_last_version_though_an_earlier_publisher_was_slow(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show, slow = Versions._show, []

    def showing(self: Versions, entry: str, file: str | None) -> None:
        if not slow:
            slow.append(entry)
            publish(store, "two", page="two", jobs=2)
        show(self, entry, file)

    monkeypatch.setattr(Versions, "_show", showing)
    publish(store, "one", page="one", jobs=1)
    assert (store / "reports" / "t.html").read_text() == "two"
    assert not Lake(store / "lake").versions(SUBJECT).under_way


@pytest.mark.slow
def test_a_run_whose_draft_another_machine_gave_up_is_told(store: Path) -> None:
    publish(store, "base", jobs=0)
    lake = Lake(store / "lake", "run")
    write_numbers(lake, jobs=1)
    lake.versions(SUBJECT).discard("run")
    for step in (
        lambda: write_numbers(lake, schedules=1),
        lambda: lake.versions(SUBJECT).publish("run"),
    ):
        with pytest.raises(InputError, match="was given up by another process"):
            step()
    with pytest.raises(InputError, match="there is no draft base to publish"):
        lake.versions(SUBJECT).publish("base")
    assert number(Lake(store / "lake")) == 0


@pytest.mark.slow
def test_a_version_that_cannot_be_followed_is_not_taken_back_over_another(store: Path) -> None:
    """The registry fails just as another machine publishes."""
    publish(store, "base", jobs=0)

    def fails(_: object) -> None:
        publish(store, "theirs", jobs=2)
        raise RuntimeError("the registry is gone")

    lake = Lake(store / "lake", "ours")
    write_numbers(lake, jobs=1)
    lake.name_models(SUBJECT, {"champion": "1"})
    with pytest.raises(RuntimeError, match="the registry is gone"):
        lake.versions(SUBJECT).publish("ours", fails)
    assert number(Lake(store / "lake")) == 2


@pytest.mark.slow
def test_what_is_published_while_it_is_looked_for_stays(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft of long ago is published between the looks at pointer and drafts."""
    monkeypatch.setenv(KEEP_H, "0")
    monkeypatch.setattr(places.Store, "unlisted_s", 0.0)
    publish(store, "base", jobs=0)
    lake, looks = Lake(store / "lake", "late"), []
    write_numbers(lake, jobs=1)
    kept = Versions.kept

    def publishing(self: Versions) -> tuple[Version, Version]:
        versions = kept(self)
        if not looks:
            looks.append("another machine, with other lock files")
            monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "other"))
            lake.versions(SUBJECT).publish("late")
        return versions

    other = Lake(store / "lake").versions(SUBJECT)
    monkeypatch.setattr(Versions, "kept", publishing)
    other.collect(remote.now_s(store) + 60)
    assert number(Lake(store / "lake")) == 1


@on_both
def test_settings_alerts_and_locks(store: Path) -> None:
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


@pytest.mark.slow
@on_s3
def test_a_put_is_refused_where_another_machine_wrote_meanwhile(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock: as if the other process were on a machine that has other lock files."""
    publish(store, "base", jobs=0)
    current = Lake(store / "lake").versions(SUBJECT)
    there = seen(current.pointer.place)
    publish(store, "theirs", jobs=1)
    with pytest.raises(Overtaken, match="another process changed it"):
        write(current.pointer.place, b"ours", there)
    with pytest.raises(Overtaken):
        write(current.pointer.place, b"ours", remote.Seen(None))
    write(current.pointer.place, seen(current.pointer.place).content or b"", there)  # an attempt whose answer was lost
    assert number(Lake(store / "lake")) == 1


@on_s3
def test_a_table_is_read_by_one_request_of_its_size(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(store / "lake", "one")
    lake.write("jobs", "t", pd.DataFrame({"number": range(100_000)}))
    lake.versions(SUBJECT).publish("one")
    path = Lake(store / "lake").path("jobs", "t")
    size = remote.listed(path.parent)[path.name].bytes
    asked = counted(path, monkeypatch)
    assert len(read_parquet(path, kind="jobs")[0]) == 100_000
    assert asked == [Asked("get_object", size)]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 3000], ids=["short footer", "long footer"])
def test_columns_of_a_table_are_read_from_its_end(store: Path, columns: int) -> None:
    frame = pd.DataFrame({f"n{column}": range(2) for column in range(columns)})
    lake = Lake(store / "lake", "one")
    lake.write("jobs", "t", frame)
    assert schema_of(lake.path("jobs", "t")).names == list(frame.columns)


@pytest.mark.slow
def test_a_store_that_is_gone_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUEUECAST_WAIT_S", "0.3")
    point_at("http://127.0.0.1:9", monkeypatch)
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
    assert trusted_home(place_of(str(tmp_path))) == tmp_path


def test_a_store_without_conditional_puts_needs_a_database_for_its_locks(tmp_path: Path) -> None:
    class Elsewhere:
        """As a place of a store that this machine has no library for."""

        protocol = "gs"

        def __str__(self) -> str:
            return "gs://bucket/x.lock"

    with pytest.raises(InputError, match="gs has no conditional puts here: set QUEUECAST_DATABASE"), held(Elsewhere()):  # type: ignore[arg-type]
        pass


def test_an_outage_is_no_damaged_draft(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions_of = Lake(store / "lake", "one").versions(SUBJECT)
    versions_of.note("one", made_by="a run")
    write(store / "lake" / "drafts" / SUBJECT / "two.json", b"{")
    assert [draft.id for draft in versions_of.drafts()] == ["one"]

    def gone(place: Path) -> remote.Seen:
        raise InputError(f"{place}: the object store does not answer as it should")

    monkeypatch.setattr(drafts, "seen", gone)
    with pytest.raises(InputError, match="does not answer"):
        versions_of.drafts()


@pytest.fixture
def proxied(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[FaultyProxy, Path]]:
    """A proxy in front of the S3 server, and an empty place behind it."""
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    address = urlsplit(s3_server)
    proxy = FaultyProxy((str(address.hostname), int(address.port or 80)))
    point_at(f"http://127.0.0.1:{proxy.port}", monkeypatch)
    bucket = uuid.uuid4().hex
    place = place_of(f"s3://{bucket}/site")
    place.fs.mkdir(bucket)  # type: ignore[attr-defined]
    yield proxy, place
    proxy.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "reset", "half"])
def test_a_store_that_fails_for_a_moment_is_asked_again(fault: str, proxied: tuple[FaultyProxy, Path]) -> None:
    proxy, place = proxied
    for work in (lambda: write(place / "a", "kept"), lambda: seen(place / "a").content):
        proxy.fault = fault
        threading.Timer(0.3, setattr, (proxy, "fault", "")).start()
        done = work()
    assert done == b"kept"
    assert proxy.faults > 0


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "why"), [("marks", "are its ETags right"), ("no marks", "it gave no ETag")])
def test_a_store_with_wrong_marks_is_told_and_changes_nothing(fault: str, why: str, proxied: tuple[FaultyProxy, Path]) -> None:
    proxy, place = proxied
    write(place / "a", "kept")
    proxy.fault = fault
    for change in (lambda: write(place / "a", "another", seen(place / "a")), lambda: at(place).append(place / "a", b"more")):
        with pytest.raises(InputError, match=why) as raised:
            change()
        assert type(raised.value) is InputError
        assert seen(place / "a").content == b"kept"
