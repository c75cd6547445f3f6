"""Submissions in files: what is read, and what is refused with its place in the file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from features.errors import InputError
from models.registry.unregistered import unregistered
from pipelines.cli.registry import predict as command
from pipelines.lake.registry import predict_registered
from pipelines.readers.people_tables import read_submissions

HEAD = "user,procs,requested_s,submit_time\n"
GOOD = "ada,4,3600,2024-03-01 09:00\n"


def csv_of(directory: Path, *rows: str, head: str = HEAD) -> Path:
    path = directory / "jobs.csv"
    path.write_text(head + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def parquet_of(directory: Path, **columns: object) -> Path:
    path = directory / "jobs.parquet"
    given = {"user": "ada", "procs": 4, "requested_s": 3600, "submit_time": pd.to_datetime(["2024-03-01 09:00"] * 3)}
    pd.DataFrame({**given, **columns}).to_parquet(path)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        read_submissions(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_times_with_and_without_seconds_stand_in_one_file(tmp_path):
    rows = [f"ada,4,3600,{time}" for time in ("2024-03-01 09:00", "2024-03-01 09:00:30", "2024-03-01T09:01:00.5", "2024-03-02")]
    table = read_submissions(csv_of(tmp_path, *rows))
    expected = ["2024-03-01 09:00:00", "2024-03-01 09:00:30", "2024-03-01 09:01:00.500", "2024-03-02 00:00:00"]
    assert table["submit_time"].tolist() == [pd.Timestamp(time) for time in expected]
    assert table["submit_time"].dtype == "datetime64[ns]"


@pytest.mark.parametrize("zone", ["Z", "+01:00", "-0500", "+01", " +01:00"])
def test_a_time_with_a_zone_is_refused_on_its_line(tmp_path, zone):
    path = csv_of(tmp_path, GOOD.strip(), f"bob,4,3600,2024-03-01 09:00:00{zone}", f"eve,4,3600,2024-03-01T09:00{zone}")
    assert complaint(path).startswith(f"{path}:3: submit_time '2024-03-01 09:00:00{zone}' has a time zone")
    assert "(2 such rows)" in complaint(path)


@pytest.mark.parametrize("time", ["yesterday", "now", "", "1709283600", "2024-13-01 09:00", "9999-01-01", "1901-01-01"])
def test_what_is_no_time_is_refused_on_its_line(tmp_path, time):
    path = csv_of(tmp_path, GOOD.strip(), f"bob,4,3600,{time}")
    assert complaint(path).startswith(f"{path}:3: submit_time '{time}' is not ")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("bob,0,3600", "procs '0' is not a whole number of at least 1"),
        ("bob,2.5,3600", "procs '2.5' is not a whole number of at least 1"),
        ("bob,four,3600", "procs 'four' is not a whole number of at least 1"),
        ("bob,4,", "requested_s '' is not a whole number of at least 1"),
        ("bob,4,inf", "requested_s 'inf' is not a whole number of at least 1"),
        ("bob,100000001,3600", "procs '100000001' is more than 100,000,000"),
        ("bob,99999999999999999999,3600", "procs '99999999999999999999' is more than 100,000,000"),
        ("bob,4,10000000001", "requested_s '10000000001' is more than 10,000,000,000"),
        ("bob,4,1e30", "requested_s '1e30' is more than 10,000,000,000"),
    ],
)
def test_numbers_out_of_bounds_are_refused_on_their_line(tmp_path, row, what):
    path = csv_of(tmp_path, GOOD.strip(), f"{row},2024-03-01 09:00")
    assert complaint(path) == f"{path}:3: {what} (1 such row)"


def test_rows_with_too_few_or_too_many_values_are_refused(tmp_path):
    path = csv_of(tmp_path, GOOD.strip(), "ada,4,3600")
    assert complaint(path) == f"{path}:3: submit_time '' is not a time such as 2026-03-01 09:00:00 (1 such row)"
    assert "Expected 4 fields in line 3, saw 5" in complaint(csv_of(tmp_path, GOOD.strip(), f"{GOOD.strip()},more"))


def test_predict_says_how_many_users_are_unknown(tmp_path, monkeypatch):
    def answered(spec, submitted):
        return pd.DataFrame({"predicted_s": 60.0, "user_known": submitted["user"].eq("ada").fillna(False).to_numpy(bool)})

    monkeypatch.setattr("pipelines.lake.registry.predict_registered", answered)
    path = csv_of(tmp_path, GOOD.strip(), GOOD.strip().replace("ada", "bob"), GOOD.strip().removeprefix("ada"))
    done = CliRunner().invoke(command, ["--model", "m", str(path)], standalone_mode=False)
    assert done.exception is None
    assert done.stderr == "m: knows no user's history for 2 of 3 jobs (user_known is False); other users' histories predict these\n"
    assert [line.rsplit(",", 1)[1] for line in done.stdout.splitlines()] == ["user_known", "True", "False", "False"]


@pytest.mark.parametrize(
    "taken", [["predicted_95_s"], ["predicted_s"], ["snapshot_age_s"], ["user_known"], ["predicted_s", "snapshot_age_s"]]
)
def test_columns_of_the_answer_are_refused_in_the_input(tmp_path, taken):
    path = csv_of(tmp_path, head=HEAD.replace("\n", f",{','.join(taken)}\n"))
    assert complaint(path).startswith(f"{path}: already has {' and '.join(taken)}")
    stored = parquet_of(tmp_path, **dict.fromkeys(taken, 1.0))
    assert complaint(stored).startswith(f"{stored}: already has {' and '.join(taken)}")


def test_absent_columns_are_named(tmp_path):
    path = csv_of(tmp_path, head="user,procs\n")
    assert complaint(path) == f"{path}: lacks the column requested_s"


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"procs": [4, 4, 0]}, "row 3: procs '0' is not a whole number"),
        ({"procs": [4, None, 4]}, "row 2: procs 'nan' is not a whole number"),
        ({"requested_s": [1, 2**62, 1]}, f"row 2: requested_s '{2**62}' is more than"),
        ({"submit_time": pd.to_datetime(["2024-03-01", None, "2024-03-01"])}, "row 2: submit_time 'NaT' is not a time"),
        ({"submit_time": [1709283600] * 3}, "row 1: submit_time '1709283600' is not a time"),
        (
            {"submit_time": pd.to_datetime(["2024-03-01"] * 3, utc=True)},
            "row 1: submit_time '2024-03-01 00:00:00+00:00' has a time zone",
        ),
    ],
)
def test_parquet_is_blamed_by_row(tmp_path, columns, what):
    path = parquet_of(tmp_path, **columns)
    assert complaint(path).startswith(f"{path}: {what}")


@pytest.mark.parametrize("name", ["nope", "start-kth-sp2@champion"])
def test_a_model_that_predicts_no_runtimes_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{name}: is not the name of a model of runtimes, such as runtime-kth-sp2"):
        predict_registered(name, read_submissions(csv_of(tmp_path, GOOD.strip())), place=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_missing_model_names_the_command_that_registers_it() -> None:
    assert "queuecast run --system small registers one" in str(unregistered("variability-small", "champion"))
    assert "queuecast run --trace kth-sp2 --starts registers one" in str(unregistered("start-kth-sp2", "champion"))
