"""What lies in a lake, as text, as views, and as a table for notebooks; and its pages."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import queuecast as qc
from features.errors import InputError
from pipelines.cli.lake import lake as command
from pipelines.lake.tables import Lake
from pipelines.lake.versions import views


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home after three nights of two traces, with a table that grows."""
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    for night in range(3):
        for trace in ("t", "u"):
            lake = Lake(tmp_path / "lake", f"night {night}")
            lake.write("jobs", trace, pd.DataFrame({"submit_s": range(10 + night)}), {"origin_unix_s": 1_000})
            lake.write_page(f"{trace}.html", f"runtime-{trace}", str(night))
            lake.versions(f"runtime-{trace}").publish(f"night {night}")
        Lake(tmp_path / "lake").write("probes", "q", pd.DataFrame({"run_id": range(night + 1)}))
    return tmp_path


def test_every_published_table_is_listed_once_with_its_file_rows_and_maker(home: Path) -> None:
    listed = CliRunner().invoke(command, catch_exceptions=False).output
    rows = [line.split() for line in listed.splitlines() if line.endswith(".parquet")]
    assert [row[:4] for row in rows] == [
        ["probes-q", "probes", "3", "rows"],
        ["runtime-t", "jobs", "12", "rows"],
        ["runtime-u", "jobs", "12", "rows"],
    ]
    assert all(Path(row[-1]).is_file() for row in rows)
    assert [row[4:6] for row in rows[1:]] == [["night", "2"]] * 2


def test_the_views_have_each_table_once_after_three_nights(home: Path) -> None:
    current = [json.loads(path.read_text())["current"]["files"] for path in sorted((home / "lake" / "current").glob("*.json"))]
    text = (home / "lake" / "current" / "views.sql").read_text()
    assert text == views(home / "lake")
    files = [file for version in current for table, file in version.items() if not table.startswith("reports/")]
    assert text.count(".parquet'") == len(files) == 3
    assert all(text.count(f"'{home / 'lake' / file}'") == 1 for file in files)
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    connection = duckdb.connect()
    connection.execute(text)
    assert connection.sql("SELECT trace, count(*) FROM jobs GROUP BY trace ORDER BY trace").fetchall() == [("t", 12), ("u", 12)]


def test_counters_are_a_view_a_sampler_with_their_system(tmp_path: Path) -> None:
    versions = Lake(tmp_path).versions("counters-quartz")
    entry = "meminfo/day=1970-01-01/part-a.parquet"
    part = versions.part(entry)
    pd.DataFrame({"time_s": [1.0]}).to_parquet(part)
    versions.commit({entry: part})
    text = views(tmp_path)
    assert text.startswith("""CREATE OR REPLACE VIEW "counters_meminfo" AS SELECT 'quartz' AS system, * FROM read_parquet([""")


def test_a_notebook_reads_a_table_by_its_name(home: Path) -> None:
    frame = qc.table("jobs", "t")
    assert (len(frame), frame.attrs["origin_unix_s"]) == (12, 1_000)
    with pytest.raises(InputError, match="materialise schedules of t first"):
        qc.table("schedules", "t")
