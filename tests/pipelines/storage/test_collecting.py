"""What lies in a lake, in a directory or at an object store: told, collected by the rule, mended, and its pages copied."""

from __future__ import annotations

import uuid
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from features.clock import DAY_S
from features.errors import InputError
from pipelines.cli.lake import command
from pipelines.ingest.ldms_ingest import ingest_counters
from pipelines.storage.collecting import collected, contents, copy_pages
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.places import at, write
from pipelines.storage.remote import place_of
from pipelines.workflows.doctor import examine, repair
from tests.support.stores import SUBJECT, later

ORPHANS = ("jobs/t/0123456789abcdef.parquet", "counters/q/s/day=1970-01-01/part-left.parquet")


@pytest.fixture(params=["memory", "directory"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with three versions, counters, and a file of each kind that nothing names."""
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    home: Path = tmp_path / "home" if request.param == "directory" else place_of(f"memory://{uuid.uuid4().hex}/site")
    monkeypatch.setenv("QUEUECAST_LAKE", str(home))
    for number in range(3):
        lake = Lake(home / "lake", f"run-{number}")
        lake.write("jobs", "t", pd.DataFrame({"number": [number]}))
        lake.write_page("t.html", SUBJECT, str(number))
        lake.versions(SUBJECT).note(f"run-{number}", made_by=f"run {number}")
        lake.versions(SUBJECT).publish(f"run-{number}")
    (tmp_path / "log").write_text("#Time,ProducerName,a\n1.0,n,1\n")
    ingest_counters(CountersStore(home / "lake", "q"), [tmp_path / "log"], sampler="s")
    for name in ORPHANS:
        write(home / "lake" / name, b"left")
    return home


def gone(home: Path, **options: float) -> dict[str, int]:
    return {subject: len(files) for subject, files in collected(home, **options) if files}  # type: ignore[arg-type]


def test_what_nothing_names_goes_after_its_time_and_what_is_held_stays(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_store = at(lake).shared
    subjects = {each.name: each for each in contents(lake)}
    assert [*subjects] == ["counters-q", SUBJECT]
    assert subjects[SUBJECT].made_by == "run 2"
    assert (subjects[SUBJECT].held, subjects[SUBJECT].loose_bytes) == (2 if at_store else 1, 4)
    assert (subjects["counters-q"].made_by, subjects["counters-q"].loose_bytes) == ("variability ingest", 4)
    there = set(at(lake).listed(lake / "lake"))
    assert gone(lake) == ({} if at_store else {SUBJECT: 1, "counters-q": 1})
    if not at_store:
        assert set(at(lake).listed(lake / "lake")) == there - {*ORPHANS}
        return
    later(monkeypatch, 2.0)  # version 0 is no longer held: a table and a page
    assert gone(lake, older_s=3.0 * DAY_S) == {}
    assert gone(lake, dry=True) == {SUBJECT: 3, "counters-q": 1}
    assert set(at(lake).listed(lake / "lake")) == there
    assert gone(lake) == {SUBJECT: 3, "counters-q": 1}
    assert set(at(lake).listed(lake / "lake")) < there - {*ORPHANS}
    assert Lake(lake / "lake").read("jobs", "t")[0]["number"].tolist() == [2]
    assert sum(batch.num_rows for batch in CountersStore(lake / "lake", "q").batches("s")) == 1
    assert Lake(lake / "lake").versions(SUBJECT).pointer.replaced() == []


def test_the_command_says_what_it_does_and_copies_pages(lake: Path, tmp_path: Path) -> None:
    printed = CliRunner().invoke(command, [], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert "run 2" in printed.output
    assert "2 subjects" in printed.output
    printed = CliRunner().invoke(command, ["collect", "--older-than", "7d"], catch_exceptions=False)
    assert "0 files, 0 B (0 bytes) removed" in printed.output
    refused = CliRunner().invoke(command, ["collect", "--older-than", "soon"])
    assert (refused.exit_code, "'soon' is not a duration such as 36h" in refused.output) == (2, True)
    write(lake / "reports" / "nights" / "t" / "index.html", "nights")
    assert "2 pages" in CliRunner().invoke(command, ["pages", str(tmp_path / "copy")], catch_exceptions=False).output
    assert {path.relative_to(tmp_path / "copy").as_posix(): path.read_text() for path in (tmp_path / "copy").rglob("*.html")} == {
        "t.html": "2",
        "nights/t/index.html": "nights",
    }
    if at(lake).shared:
        lake.fs.pipe_file(f"{lake.path}/reports/../../out.html", b"")  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="leads out of"):
            copy_pages(lake, tmp_path / "copy")


def test_the_doctor_looks_at_a_lake_and_goes_back_to_what_is_whole(lake: Path) -> None:
    def none() -> None:
        raise AssertionError("there is no registry")

    table = Lake(lake / "lake").path("jobs", "t")
    write(table, b"cut")
    assert {each.part for each in examine(lake, none)} == {"lake"}  # type: ignore[arg-type]
    assert repair(lake, none, lambda finding: None) == []  # type: ignore[arg-type]
    assert Lake(lake / "lake").read("jobs", "t")[0]["number"].tolist() == [1]
    (part,) = CountersStore(lake / "lake", "q").parts("s")
    write(CountersStore(lake / "lake", "q").path(part), b"cut")
    assert "missing or damaged" in next(examine(lake, none)).what  # type: ignore[arg-type]
