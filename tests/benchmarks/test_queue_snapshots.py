"""The judged program: what it reads of a table of Mila's form, and what it prints."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.studies import daily_starts as daily
from benchmarks.studies import queue_snapshots
from tests.benchmarks.test_standing import noons


def kept(path: Path, table: pd.DataFrame) -> Path:
    """Write noons as their table, with columns of the future, and a job that never starts."""
    times = {theirs: pd.to_datetime(table[ours], unit="s") for theirs, ours in queue_snapshots.TIMES.items()}
    names = {"procs": "req_cpus", "requested_s": "time_limit_sec", "queue": "partition_id_y", "account": "account_id"}
    theirs = table.rename(columns={**names, "ahead_jobs": "q_jobs_above", "priority": "priority_y"}).assign(**times)
    theirs.loc[theirs.index[-1], "start_time"] = pd.NaT
    theirs["level_fs_poll"] = np.inf
    theirs = theirs.drop(columns=["at_s", "submit_s", "start_s", "eligible_s"])
    theirs.assign(q_core_run_hours=table["start_s"] % 97, poll_wait_sec=table["start_s"] - table["at_s"]).to_parquet(path)
    return path


def test_it_prints_figures_of_the_days_and_reads_no_column_of_the_future(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(daily, "GROWTH", replace(daily.GROWTH, trees=5, members=1))
    table, printed = noons(days=9), []
    whole = kept(tmp_path / "whole.parquet", table)
    bare = tmp_path / "bare.parquet"
    pd.read_parquet(whole).drop(columns=["q_core_run_hours", "poll_wait_sec"]).to_parquet(bare)
    for path in (whole, bare):
        monkeypatch.setattr(sys, "argv", ["queue_snapshots", str(path), "--days", "8-20", "--json"])
        queue_snapshots.main()
        printed.append(capsys.readouterr())
    result = json.loads(printed[0].out)
    assert result == json.loads(printed[1].out)
    assert (
        "1 jobs without a start are not judged\n2 columns of the future are not read: poll_wait_sec, q_core_run_hours"
        in printed[0].err
    )
    assert (result["questions"], set(result["held_80_by_day"])) == (79, {"8", "9"})
    assert 0.0 < result["mse_log10"] < 1.0
    assert result["held_50"] < result["held_80"] < result["held_90"] <= 1.0


def test_a_table_with_missing_values_and_names_as_texts_still_has_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(daily, "GROWTH", replace(daily.GROWTH, trees=5, members=1))
    path = kept(tmp_path / "noons.parquet", noons(days=9))
    table = pd.read_parquet(path).sample(frac=1.0, random_state=0)
    row = np.arange(len(table))
    for number, name in enumerate(("time_limit_sec", "req_cpus", "submit_time", "priority_y", "poll_time")):
        table[name] = table[name].mask(row % 40 == number)
    table["partition_id_y"] = "p" + table["partition_id_y"].astype(str)
    table["eligible_time"] = table["eligible_time"].astype("datetime64[s]").astype("int64")
    table.to_parquet(path)
    monkeypatch.setattr(sys, "argv", ["queue_snapshots", str(path), "--days", "8-20", "--json"])
    queue_snapshots.main()
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert f"{(row % 40 == 4).sum()} rows without poll_time are left out" in printed.err
    assert {"mse_log10", "within_2", "held_50", "held_80", "held_90", "held_80_by_day"} <= set(result)
    assert np.isfinite(result["mse_log10"])


@pytest.mark.parametrize(
    ("change", "days", "message"),
    [
        (lambda table: table.drop(columns="time_limit_sec"), "8-9", "column time_limit_sec is missing"),
        (lambda table: table, "9-8", "is no range of days"),
        (lambda table: table, "40-50", "has no rows of the days 40 to 50"),
        (lambda table: table, "1-9", "fewer than 100 jobs started before"),
    ],
)
def test_what_it_cannot_judge_is_one_line_and_exit_code_2(
    change: object, days: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = kept(tmp_path / "noons.parquet", noons(days=9))
    change(pd.read_parquet(path)).to_parquet(path)  # type: ignore[operator]
    monkeypatch.setattr(sys, "argv", ["queue_snapshots", str(path), "--days", days])
    with pytest.raises(SystemExit) as exit_:
        queue_snapshots.main()
    assert (exit_.value.code, message in capsys.readouterr().err) == (2, True)
