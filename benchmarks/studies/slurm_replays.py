"""Measure replays of recorded Slurm runs beside their records, and what each column costs that an export lacks.

A FOLDER holds runs: NAME.txt or NAME.sacct.txt, the site's folder NAME, sites/NAME or, for several runs of one site, that of the
name before the hyphen; and, if there is one, slurmctld's log, NAME.log.gz or NAME.slurmctld.log.gz. Run with
``python -m benchmarks.studies.slurm_replays FOLDER... [--run NAME]... [--columns]
[--write]``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.statistics import range_of_next
from pipelines.readers.slurm.lines import ABSENT
from pipelines.readers.slurm.slurmctld_log import read_phases
from pipelines.studies.parity import REPLAYS, read_site_jobs
from sim.site.computed import with_computations
from sim.site.explained import decisions
from sim.site.parity import BY, by_group, open_replays

DATA = Path(__file__).parents[2] / "docs" / "studies" / "data"
_WITH_LOG, _WITHOUT_COLUMN = 8, 6


class Run(NamedTuple):
    """A recorded run: its accounting, its site's folder, and slurmctld's log or None."""

    name: str
    accounting: Path
    site: Path
    log: Path | None


def runs(folders: list[Path]) -> list[Run]:
    """Return the recorded runs in these folders, by name."""
    recorded = []
    for folder in folders:
        for path in sorted(folder.glob("*.txt")):
            name = path.name.removesuffix(".txt").removesuffix(".sacct")
            sites = [folder / name, folder / "sites" / name, folder / "sites" / name.rpartition("-")[0]]
            logs = [folder / f"{name}.log.gz", folder / f"{name}.slurmctld.log.gz"]
            site = next((each for each in sites if each.is_dir()), None)
            if site is not None:
                recorded.append(Run(name, path, site, next((each for each in logs if each.exists()), None)))
    return recorded


def beside_its_record(run: Run) -> dict[str, object]:
    """Return the figures of a run's replays, with drawn phases and with those of its log."""
    site, jobs = read_site_jobs(run.accounting, run.site, "UTC")
    led, phases, logged, table = site, None, None, jobs.table
    if run.log is not None:
        led, _ = read_site_jobs(run.accounting, run.site, "UTC", log=run.log)
        phases, logged = (read_phases(run.log, led, rows) for rows in (table, jobs.runs))
    site = with_computations(replace(site, release=led.release), jobs.runs)
    drawn = open_replays(site, table, REPLAYS, 0)
    summary, low_high = drawn.summary(), range_of_next(drawn.wait_s[:, drawn.starts])
    held = (low_high[0] <= drawn.recorded_s[drawn.starts]) & (drawn.recorded_s[drawn.starts] <= low_high[1])
    groups = pd.concat([by_group(table, drawn, by, site.timezone) for by in BY])
    by_phases = None if phases is None else open_replays(led, table, _WITH_LOG, 0, None, phases)
    led_mean_s = None if by_phases is None else float(np.nanmean(by_phases.wait_s[:, drawn.counted]))
    led_waits = {} if by_phases is None else by_phases.summary()
    asked, by_log = decisions(led, jobs.runs), decisions(led, jobs.runs, 0, logged) if logged else None
    return {
        "run": run.name,
        "jobs": summary["jobs"],
        "recorded_mean_wait_s": round(summary["recorded_mean_wait_s"], 1),
        "replays_mean_wait_s": round(summary["mean_wait_s"], 1),
        "replays_low_s": round(summary["low_s"], 1),
        "replays_high_s": round(summary["high_s"], 1),
        "groups": len(groups),
        "groups_in_range": int((~groups["outside"].astype(bool)).sum()),
        "jobs_in_range": int(held.sum()),
        "with_log_mean_wait_s": None if led_mean_s is None else round(led_mean_s, 1),
        "within_5_s": round(led_waits["within_5_s"], 2) if led_waits else None,
        "decisions": round(asked.predicted / asked.starts, 2),
        "extra": round(asked.extra / asked.starts, 2),
        "decisions_by_log": round(by_log.predicted / by_log.starts, 3) if by_log else None,
        "extra_by_log": round(by_log.extra / by_log.starts, 3) if by_log else None,
    }


def without_columns(run: Run) -> list[dict[str, object]]:
    """Return what changes in a run's replays without each column that its export may lack."""
    lines = run.accounting.read_text().splitlines()
    titles = lines[0].split("|")
    rows, whole = [], (0.0, 0.0)
    with TemporaryDirectory() as folder:
        for name in ("", *(name for name in ABSENT if name in titles)):
            at = titles.index(name) if name else len(titles)
            cut = [line.split("|", len(titles) - 1) for line in lines]  # free text stands last
            path = Path(folder) / run.accounting.name
            path.write_text("\n".join("|".join(line[:at] + line[at + 1 :]) for line in cut) + "\n")
            site, jobs = read_site_jobs(path, run.site, "UTC")
            site = with_computations(site, jobs.runs)
            mean_s = open_replays(site, jobs.table, _WITHOUT_COLUMN, 0).summary()["mean_wait_s"]
            asked = decisions(site, jobs.runs)
            if not name:
                whole = mean_s, asked.predicted / asked.starts
                continue
            moved, lost = mean_s / whole[0] - 1, whole[1] - asked.predicted / asked.starts
            rows.append({"run": run.name, "column": name, "mean_wait": moved, "decisions_lost": lost})
    return rows


def by_column(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return for each column how far its absence moves mean waits, in %, and decisions, in points."""
    table = pd.DataFrame(rows)
    table["moved"] = 100 * table["mean_wait"].abs()
    of_column = table.groupby("column", sort=False)
    return pd.DataFrame(
        {
            "runs": of_column.size(),
            "median_percent": of_column["moved"].median().round(1),
            "most_percent": of_column["moved"].max().round(0).astype(np.int64),
            "most_points": (100 * of_column["decisions_lost"].max()).clip(lower=0).round(0).astype(np.int64),
        }
    ).reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--columns", action="store_true", help="measure what each missing column costs")
    parser.add_argument("--write", action="store_true", help="write the table to docs/studies/data")
    parser.add_argument("--run", action="append", default=[], help="only this one of the runs")
    given = parser.parse_args()
    chosen = [run for run in runs(given.folders) if not given.run or run.name in given.run]
    if given.columns:
        rows: list[dict[str, object]] = []
        for run in chosen:
            rows += without_columns(run)
            print(pd.DataFrame(rows).to_csv(index=False), file=sys.stderr, flush=True)
        name, table = "slurm-columns.csv", by_column(rows)
    else:
        name, table = "slurm-replays.csv", pd.DataFrame([beside_its_record(run) for run in chosen])
        inside = table["recorded_mean_wait_s"].between(table["replays_low_s"], table["replays_high_s"])
        groups, waits = (table[f"{what}_in_range"].sum() / table[what].sum() for what in ("groups", "jobs"))
        print(f"In their range: {inside.sum()} of {len(table)} means, {groups:.1%} of groups, {waits:.1%} of waits")
    print(table.to_string(index=False))
    if given.write:
        table.to_csv(DATA / name, index=False)


if __name__ == "__main__":
    main()
