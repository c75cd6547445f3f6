"""Versions of tables: seen whole or not at all, whatever dies; what is published with what; and which files stay."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.lake.tables import Lake
from pipelines.lake.versions import Published, Versions
from tests.support.stores import SUBJECT, publish, write_numbers


def seen(root: Path) -> dict[str, int]:
    """What a reader sees of every table."""
    lake = Lake(root / "lake").at_once(SUBJECT)
    tables = ("jobs", "runtime_features", "runtime_model", "schedules", "comparison", "nights")
    return {table: int(lake.read(table, "t")[0]["number"].iloc[0]) for table in tables if lake.has(table, "t")}


def filled(root: Path, maker: str, inputs: tuple[str, ...] = (), **numbers: int) -> None:
    """Materialise one asset: read ``inputs`` as a run does, then write tables."""
    lake = Lake(root / "lake", maker)
    for table in inputs:
        lake.read(table, "t")
    write_numbers(lake, **numbers)


def published(root: Path, maker: str, *also: str) -> Published:
    return Versions(root / "lake", SUBJECT).publish(maker, accepted=lambda name: name in (maker, *also))


def test_what_a_run_made_is_read_by_every_run_and_by_no_reader(tmp_path: Path) -> None:
    publish(tmp_path, "first", jobs=1, schedules=1)
    filled(tmp_path, "second", jobs=2)
    another = Lake(tmp_path / "lake", "third")
    assert another.read("jobs", "t")[0]["number"].tolist() == [2]
    assert another.read("schedules", "t")[0]["number"].tolist() == [1]
    assert seen(tmp_path) == {"jobs": 1, "schedules": 1}


def test_what_was_made_from_other_files_is_left_out_and_named(tmp_path: Path) -> None:
    filled(tmp_path, "run", jobs=1)
    filled(tmp_path, "run", ("jobs",), schedules=1)
    filled(tmp_path, "run", ("jobs", "schedules"), comparison=1)
    assert published(tmp_path, "run").left_out == {}
    filled(tmp_path, "click", ("jobs",), schedules=2)
    assert published(tmp_path, "click").left_out == {"comparison": "made from schedules of another run"}
    assert seen(tmp_path) == {"jobs": 1, "schedules": 2}
    filled(tmp_path, "click", ("jobs", "schedules"), comparison=2)
    assert published(tmp_path, "click").left_out == {}
    assert seen(tmp_path) == {"jobs": 1, "schedules": 2, "comparison": 2}


def test_what_a_failed_run_made_is_not_published_and_what_is_current_stays(tmp_path: Path) -> None:
    filled(tmp_path, "run", jobs=1)
    filled(tmp_path, "run", ("jobs",), schedules=1)
    published(tmp_path, "run")
    filled(tmp_path, "failed", jobs=2)
    filled(tmp_path, "click", ("jobs",), schedules=2)
    assert published(tmp_path, "click").left_out == {
        "jobs": "made by failed, which did not succeed or is not done",
        "schedules": "made from jobs of another run",
    }
    assert seen(tmp_path) == {"jobs": 1, "schedules": 1}
    published(tmp_path, "click", "failed")
    assert seen(tmp_path) == {"jobs": 2, "schedules": 2}, "what was left out is still there"


def test_a_champion_serves_until_another_is_published(tmp_path: Path) -> None:
    publish(tmp_path, "first", {"champion": "1"}, jobs=1, runtime_model=1)
    filled(tmp_path, "second", jobs=2)
    assert published(tmp_path, "second").left_out == {"runtime_model": "made from jobs of another run"}
    assert Lake(tmp_path / "lake").models(SUBJECT) == {"champion": "1"}


def test_pages_of_tables_that_are_no_longer_published_go_and_those_of_nights_stay(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "night")
    write_numbers(lake, jobs=1)
    for page in ("t.html", "nights/t/2026-03-01.html"):
        lake.write_page(page, SUBJECT, "one")
    published(tmp_path, "night")
    filled(tmp_path, "run", jobs=2)
    assert published(tmp_path, "run").left_out == {"reports/t.html": "made from jobs of another run"}
    assert not (tmp_path / "reports" / "t.html").exists()
    assert (tmp_path / "reports" / "nights" / "t" / "2026-03-01.html").read_text() == "one"


def test_files_of_three_versions_and_the_draft_stay_and_others_go_after_a_day(tmp_path: Path) -> None:
    for number in range(5):
        publish(tmp_path, f"run-{number}", jobs=number, page=str(number))
    filled(tmp_path, "dead", jobs=9)
    jobs = tmp_path / "lake" / "jobs" / "t"
    assert len([*jobs.iterdir()]) == 6, "none is a day old"
    for path in (tmp_path / "lake").rglob("*.*"):
        os.utime(path, (0, 0))
    Versions(tmp_path / "lake", SUBJECT).sweep()
    assert len([*jobs.iterdir()]) == 4
    assert len([*(tmp_path / "lake" / "pages" / SUBJECT).iterdir()]) == 3
    assert Lake(tmp_path / "lake", "later").read("jobs", "t")[0]["number"].tolist() == [9]
    assert (tmp_path / "reports" / "t.html").read_text() == "4"


def test_a_reader_that_reads_several_tables_sees_one_version(tmp_path: Path) -> None:
    publish(tmp_path, "first", jobs=1, schedules=1)
    reader = Lake(tmp_path / "lake").at_once(SUBJECT)
    publish(tmp_path, "second", jobs=2, schedules=2)
    assert [int(reader.read(table, "t")[0]["number"].iloc[0]) for table in ("jobs", "schedules")] == [1, 1]


def test_a_registry_that_fails_is_told_and_asked_again(tmp_path: Path) -> None:
    def away(_: Mapping[str, str]) -> None:
        raise OSError("away")

    publish(tmp_path, "first", {"champion": "1"}, lambda _: None, "first", jobs=1)
    lake, moves = Lake(tmp_path / "lake", "second"), []
    write_numbers(lake, jobs=2)
    lake.name_models(SUBJECT, {"champion": "2"})
    subject = lake.versions(SUBJECT)
    assert subject.publish("second", away).problem == "away"
    assert (seen(tmp_path), lake.published().models(SUBJECT), subject.follows) == ({"jobs": 2}, {"champion": "2"}, False)
    publish(tmp_path, "third", None, moves.append, jobs=3)
    assert (moves, subject.follows) == ([{"champion": "2"}], True)


class Killed(BaseException):
    """Not caught by anything."""


@contextmanager
def dying(changes: int, error: BaseException) -> Iterator[Callable[..., object]]:
    """Let ``error`` be raised in place of a change of a file, after so many of them; yield what counts one more function."""
    left = changes

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def change(*arguments: object, **keywords: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise error
            return real(*arguments, **keywords)

        return change

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(os, "replace", counted(os.replace))
        broken.setattr(Path, "unlink", counted(Path.unlink))
        broken.setattr(Path, "write_bytes", counted(Path.write_bytes))
        yield counted


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Killed(), id="killed"),
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), id="disk full", marks=pytest.mark.thorough),
    ],
)
def test_stopped_at_any_change_of_a_file_a_version_is_there_whole_or_not(tmp_path: Path, error: BaseException) -> None:
    """Every write, move and removal of writing and publishing is the last that happens, one after the other; then the next run comes."""
    outcomes, done, at = [], False, 0
    base, aliases = tmp_path / "made", {}
    publish(base, "first", {"champion": "1"}, aliases.update, "one", jobs=1, runtime_model=1, schedules=1)
    publish(base, "second", {"champion": "2"}, aliases.update, "two", jobs=2, runtime_model=2, schedules=2)
    while not done:
        root, aliases = Path(shutil.copytree(base, tmp_path / str(at))), {"champion": "2"}
        with dying(at, error) as counted:
            try:
                publish(root, "third", {"champion": "3"}, counted(aliases.update), "three", jobs=3, runtime_model=3, schedules=3)
                done = Versions(root / "lake", SUBJECT).follows
            except (Killed, OSError, InputError):
                pass
        numbers, subject = seen(root), Versions(root / "lake", SUBJECT)
        happened = numbers["jobs"] == 3
        assert numbers == dict.fromkeys(("jobs", "runtime_model", "schedules"), 3 if happened else 2)
        assert subject.current().models == {"champion": "3" if happened else "2"}
        if not subject.follows:
            subject.follow(aliases.update)
        assert aliases == subject.current().models
        assert (root / "reports" / "t.html").read_text() == ("three" if happened else "two")
        publish(root, "fourth", {"champion": "4"}, aliases.update, "four", jobs=4, runtime_model=4, schedules=4)
        assert seen(root) == {"jobs": 4, "runtime_model": 4, "schedules": 4}
        assert aliases == {"champion": "4"}
        outcomes.append(happened)
        at += 1
    assert outcomes == sorted(outcomes), "once it has happened it has"
    assert 0 < outcomes.index(True) < len(outcomes) - 3


def test_a_table_that_grows_is_current_at_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "run")
    lake.write("probes", "t", pd.DataFrame({"number": [1]}))
    assert Lake(tmp_path / "lake").read("probes", "t")[0]["number"].tolist() == [1]
    before = lake.at_once("probes-t")
    lake.write("probes", "t", pd.DataFrame({"number": [2]}))
    assert lake.read("probes", "t")[0]["number"].tolist() == [2]
    assert before.read("probes", "t")[0]["number"].tolist() == [1], "the version before stays for readers"


def test_a_table_stands_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "run")
    path = lake.write("jobs", "t", pd.DataFrame({"submit_s": [5]}), {"origin_unix_s": 1_700_000_000})
    row = pd.read_parquet(path).iloc[0]
    assert (row["trace"], row["origin_unix_s"] + row["submit_s"]) == ("t", 1_700_000_005)
    frame, metadata = lake.read("jobs", "t")
    assert [*frame] == ["submit_s"]
    assert metadata == {"trace": "t", "origin_unix_s": 1_700_000_000}
    other = lake.write("variability_features", "q", pd.DataFrame({"run_id": ["a"]}))
    assert pd.read_parquet(other)["system"].tolist() == ["q"]
