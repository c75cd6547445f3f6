"""Versions of tables: seen whole or not at all, whatever dies; what the next version keeps; and which files stay."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.storage import subject_files
from pipelines.storage.lake import Lake
from pipelines.storage.remote import Overtaken
from pipelines.storage.version import subject_of
from pipelines.storage.versions import Versions
from tests.support.stores import SUBJECT, lost_lock, publish, write_numbers


def seen(root: Path) -> dict[str, int]:
    """What a reader sees of every table."""
    lake = Lake(root / "lake").at_once(SUBJECT)
    tables = ("jobs", "user_history", "runtime_model", "schedules", "comparison", "nights")
    return {table: int(lake.read(table, "t")[0]["number"].iloc[0]) for table in tables if lake.has(table, "t")}


def test_a_draft_is_read_by_its_own_steps_and_by_no_other(tmp_path: Path) -> None:
    publish(tmp_path, "first", jobs=1, schedules=1)
    draft = Lake(tmp_path / "lake", "second")
    write_numbers(draft, jobs=2)
    assert draft.read("jobs", "t")[0]["number"].tolist() == [2]
    assert draft.read("schedules", "t")[0]["number"].tolist() == [1]
    assert seen(tmp_path) == {"jobs": 1, "schedules": 1}
    draft.versions(SUBJECT).publish("second")
    assert seen(tmp_path) == {"jobs": 2}


def test_a_version_keeps_what_is_still_right_and_nothing_else(tmp_path: Path) -> None:
    publish(tmp_path, "run", jobs=1, user_history=1, runtime_model=1, schedules=1, comparison=1, page="run")
    publish(tmp_path, "night", jobs=2, user_history=2, runtime_model=2, nights=2)
    assert seen(tmp_path) == {"jobs": 2, "user_history": 2, "runtime_model": 2, "nights": 2}
    assert not (tmp_path / "reports" / "t.html").exists(), "a page of schedules that are no longer read"
    with pytest.raises(InputError, match="none of t in its current version; materialise comparison of t first"):
        Lake(tmp_path / "lake").read("comparison", "t")
    publish(tmp_path, "again", jobs=2, schedules=3, comparison=3, page="again")
    assert seen(tmp_path) == {"jobs": 2, "user_history": 2, "runtime_model": 2, "schedules": 3, "comparison": 3, "nights": 2}
    publish(tmp_path, "alone", schedules=4)
    assert seen(tmp_path) == {"jobs": 2, "user_history": 2, "runtime_model": 2, "schedules": 4, "nights": 2}


@pytest.mark.parametrize("store", ["directory", "memory", pytest.param("s3", marks=pytest.mark.thorough)], indirect=True)
def test_a_version_is_not_published_over_one_that_its_draft_did_not_know(store: Path) -> None:
    publish(store, "first", jobs=1)
    late = Lake(store / "lake", "late")
    write_numbers(late, jobs=2)
    other = Lake(store / "lake", "other")
    write_numbers(other, jobs=3)
    other.versions(SUBJECT).note("other", made_by="night 2026-03-01")
    kept = (store / "lake" / "drafts" / SUBJECT / "late.json").read_text()
    other.versions(SUBJECT).publish("other")
    assert late.versions(SUBJECT).drafts() == [], "no draft can be published any more"
    for later in (
        lambda: write_numbers(late, schedules=2),
        lambda: late.read("jobs", "t"),
    ):  # it does not go on over what is current now
        with pytest.raises(InputError, match="night 2026-03-01 was published after this had begun"):
            later()
    (store / "lake" / "drafts" / SUBJECT / "late.json").write_text(kept)
    for later in (lambda: late.versions(SUBJECT).publish("late"), lambda: write_numbers(late, schedules=2)):
        with pytest.raises(InputError, match="night 2026-03-01 was published after this had begun"):
            later()
    assert seen(store) == {"jobs": 3}


def test_a_lock_that_was_lost_before_the_pointer_is_put_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aliases: list[Mapping[str, str]] = []
    publish(tmp_path, "first", {"champion": "1"}, aliases.append, jobs=1)
    pointer = tmp_path / "lake" / "current" / f"{SUBJECT}.json"
    before = pointer.read_bytes(), pointer.stat().st_mtime_ns
    monkeypatch.setattr(subject_files, "held", lost_lock)
    with pytest.raises(InputError, match="its lock was lost"):
        publish(tmp_path, "second", {"champion": "2"}, aliases.append, jobs=2)
    assert (pointer.read_bytes(), pointer.stat().st_mtime_ns) == before
    assert aliases == [{"champion": "1"}]


def test_files_of_this_version_and_the_last_stay_and_no_others(tmp_path: Path) -> None:
    for number in range(4):
        publish(tmp_path, f"run-{number}", jobs=number, schedules=number, page=str(number))
    dead = Lake(tmp_path / "lake", "dead")
    write_numbers(dead, jobs=9)
    tables = [path for path in (tmp_path / "lake").rglob("*") if path.suffix in (".parquet", ".html")]
    assert Counter(path.parent.parent.name for path in tables) == {"jobs": 3, "pages": 2, "schedules": 2}
    dead.versions(SUBJECT).discard("dead")
    assert len(list((tmp_path / "lake" / "jobs").rglob("*.parquet"))) == 2
    assert (tmp_path / "reports" / "t.html").read_text() == "3"


def test_a_reader_that_reads_several_tables_sees_one_version(tmp_path: Path) -> None:
    publish(tmp_path, "first", jobs=1, schedules=1)
    reader = Lake(tmp_path / "lake").at_once(SUBJECT)
    publish(tmp_path, "second", jobs=2, schedules=2)
    assert [int(reader.read(table, "t")[0]["number"].iloc[0]) for table in ("jobs", "schedules")] == [1, 1]


def test_a_registry_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    def away(_: Mapping[str, str]) -> None:
        raise OSError("away")

    publish(tmp_path, "first", {"champion": "1"}, lambda _: None, "first", jobs=1)
    with pytest.raises(OSError, match="away"):
        publish(tmp_path, "second", {"champion": "2"}, away, "second", jobs=2)
    assert seen(tmp_path) == {"jobs": 1}
    assert (tmp_path / "reports" / "t.html").read_text() == "first"
    assert not Versions(tmp_path / "lake", SUBJECT).under_way


def test_aliases_that_a_version_does_not_change_are_left_alone(tmp_path: Path) -> None:
    moves: list[Mapping[str, str]] = []
    publish(tmp_path, "first", {"champion": "1"}, moves.append, jobs=1)
    publish(tmp_path, "second", None, moves.append, jobs=2)
    assert moves == [{"champion": "1"}]
    assert Versions(tmp_path / "lake", SUBJECT).current().models == {"champion": "1"}


class Killed(BaseException):
    """Not caught by anything."""


@pytest.mark.slow
def test_killed_at_any_change_of_a_file_a_version_is_there_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every os.replace and unlink of writing and publishing is the last that happens, one after the other; then the next process comes."""
    outcomes = []
    monkeypatch.setattr(subject_files, "being_written", lambda _: False)  # whatever wrote is dead
    base, aliases = tmp_path / "made", {}
    publish(base, "first", {"champion": "1"}, aliases.update, "one", jobs=1, runtime_model=1, schedules=1)
    publish(base, "second", {"champion": "2"}, aliases.update, "two", jobs=2, runtime_model=2, schedules=2)
    for at in range(100):
        root, aliases = Path(shutil.copytree(base, tmp_path / str(at))), {"champion": "2"}
        left = at
        with monkeypatch.context() as broken:

            def dying(real):
                def change(*arguments, **keywords):
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise Killed
                    return real(*arguments, **keywords)

                return change

            broken.setattr(os, "replace", dying(os.replace))
            broken.setattr(Path, "unlink", dying(Path.unlink))
            broken.setattr(Versions, "take_back", lambda *_: None)
            try:
                publish(root, "third", {"champion": "3"}, dying(aliases.update), "three", jobs=3, runtime_model=3, schedules=3)
                done = True
            except Killed:
                done = False
        numbers = seen(root)
        happened = numbers["jobs"] == 3
        assert numbers == dict.fromkeys(("jobs", "runtime_model", "schedules"), 3 if happened else 2)
        again = Versions(root / "lake", SUBJECT)
        again.follow(aliases.update)
        assert aliases == again.current().models == {"champion": "3" if happened else "2"}
        assert (root / "reports" / "t.html").read_text() == ("three" if happened else "two")
        publish(root, "fourth", {"champion": "4"}, aliases.update, "four", jobs=4, runtime_model=4, schedules=4)
        assert seen(root) == {"jobs": 4, "runtime_model": 4, "schedules": 4}
        kept = json.loads((root / "lake" / "current" / f"{SUBJECT}.json").read_text())
        assert len(list((root / "lake" / "jobs" / "t").iterdir())) == 2 == len(kept)
        outcomes.append(happened)
        if done:
            break
    assert done
    assert outcomes == sorted(outcomes), "once it has happened it has"
    assert 0 < outcomes.index(True) < len(outcomes) - 5


def test_a_table_that_grows_is_current_at_once_with_a_draft_or_not_and_on_condition(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "run")
    lake.write("probes", "t", pd.DataFrame({"number": [1]}))
    assert Lake(tmp_path / "lake").read("probes", "t")[0]["number"].tolist() == [1]
    before = lake.at_once("probes-t")
    lake.write("probes", "t", pd.DataFrame({"number": [2]}))
    with pytest.raises(Overtaken, match="begin again"):
        before.write("probes", "t", pd.DataFrame({"number": [3]}))
    assert lake.read("probes", "t")[0]["number"].tolist() == [2]
    assert before.read("probes", "t")[0]["number"].tolist() == [1], "the version before stays for readers"


def test_every_table_belongs_to_one_subject() -> None:
    assert subject_of("jobs", "t") == "runtime-t"
    assert subject_of("variability_model", "t") == "variability-t"
    assert subject_of("control_runs", "t") == "control_runs-t"
    assert subject_of("counter_parts", "t") == subject_of("counters", "t") == "counters-t"
    assert subject_of("current", "t") == ""
