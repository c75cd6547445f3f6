"""Ask a real Slurm's queue when its jobs will start, beside what ``squeue --start`` said.

At each sampled moment of a recorded run ``queuecast when`` tells each waiting job's start, from a snapshot and what had ended by then, beside what Slurm
expected: of micro-1 ``squeue``'s sample every ten seconds, of pair-A and pair-B the plans that each backfill cycle logged. Nothing was fixed on these runs;
they are shorter than a day, so no arrivals are drawn.
"""

from __future__ import annotations

import csv
import gzip
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.card import parser, write_rows
from benchmarks.common.pages import STUDIES
from models.packed.start_distribution import LEVELS
from models.packed.start_predictor import QUANTILES
from pipelines.ingest.queue_file import queue_at
from pipelines.ingest.slurm_jobs import SlurmJobs
from pipelines.workflows.parity import read_site_jobs
from pipelines.workflows.when import queue_of, record_of
from sim.slurm.site import Site

RUNS = {"micro-1": ("micro", "micro-1"), "pair-A": ("pair", "pair"), "pair-B": ("pair", "pair")}
_LOGGED = re.compile(
    r"\[(\S+)\] sched/backfill: (?:_attempt_backfill: beginning|_dump_job_sched: JobId=(\d+(?:_\d+)?)(_\*)? to start at (\S+),)"
)


def unix(text: str) -> float:
    """Return a time of the logs, which are in UTC, in Unix seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def recorded(shared: Path, run: str) -> tuple[Site, pd.DataFrame]:
    """Return the site of a run and its jobs, with options that accounting lacks."""
    site, options_name = RUNS[run]
    slurm_site, jobs = read_site_jobs(shared / f"{run}.sacct.txt", shared / "sites" / site, "UTC")
    table, numbers = jobs.table, sorted(jobs.table["group"].unique())
    with (shared / f"{options_name}.csv").open() as file:
        asked = dict(zip(numbers, csv.DictReader(file), strict=True))
    table[["throttle", "after", "name"]] = [
        (int(row["array"].partition("%")[2] or 0), str(numbers[int(row["after"])]) if row["after"] else "", row["name"])
        for row in table["group"].map(asked)
    ]
    return slurm_site, table.assign(eligible_s=-1, held_s=-1)


def samples(shared: Path, run: str, jobs: pd.DataFrame) -> Iterator[tuple[float, pd.Series]]:
    """Yield moments, and when Slurm expected each waiting job to start, NaN: unsaid."""
    by_id, sampled = jobs.set_index("job_id"), shared / f"{run}.sacct.txt.queue.gz"
    if sampled.exists():
        lines = pd.read_csv(sampled, sep="|", header=None, usecols=[0, 1, 2, 4], names=["s", "id", "state", "_", "start", "why"])
        runs = lines[lines["state"] == "RUNNING"]
        began = float((by_id["start_s"].reindex(runs["id"]).to_numpy() - runs["s"]).max())  # the latest that fits
        for second, rows in lines[lines["state"] == "PENDING"].groupby("s"):
            yield began + second, pd.Series([unix(text) if isinstance(text, str) else np.nan for text in rows["start"]], rows["id"])
        return
    cycles = list[tuple[float, dict[str, float]]]()
    with gzip.open(shared / f"{run}.slurmctld.log.gz", "rt") as file:
        for match in filter(None, map(_LOGGED.match, file)):
            if not match[2]:
                cycles.append((unix(match[1]), {}))
                continue
            tasks = jobs["job_id"][jobs["group"] == int(match[2])] if match[3] else [match[2]]
            cycles[-1] = (unix(match[1]), cycles[-1][1] | dict.fromkeys(tasks, unix(match[4])))
    for now_s, plans in cycles:
        waits = by_id.index[(by_id["submit_s"] < np.floor(now_s)) & (by_id["start_s"] > now_s)]
        yield now_s, pd.Series(plans, dtype=np.float64).reindex(waits)


def answers(shared: Path, run: str, part: slice = slice(None)) -> pd.DataFrame:
    """Return a row for each moment and waiting job; seconds count from the moment."""
    site, jobs = recorded(shared, run)
    record, start, tables = (
        record_of(site, SlurmJobs(jobs, (), run), "UTC"),
        jobs.set_index("job_id")["start_s"],
        list[pd.DataFrame](),
    )
    for number, (moment_s, expected_s) in list(enumerate(samples(shared, run, jobs)))[part]:
        begun, now_s = time.process_time(), int(np.ceil(moment_s))
        queue = queue_of(record, queue_at(jobs, now_s, jobs["job_id"].isin(expected_s.index).to_numpy()), now_s, seed=number)
        answered = queue.answered(None, queue.waiting)
        spent, ids = time.process_time() - begun, [each.job_id for each in answered]
        levels = {
            f"q{level:.2f}": [each.forecast[name] for each in answered] for level, name in zip(LEVELS, QUANTILES, strict=True)
        }
        about = {"run": run, "moment": number, "job": ids, "was_s": start[ids].to_numpy() - now_s}
        about |= {"said_s": expected_s.reindex(ids).to_numpy() - now_s}
        tables.append(pd.DataFrame({**about, **levels, "spent_s": spent}))
    rows = pd.concat(tables, ignore_index=True)
    return rows[rows["was_s"] >= 0]


def summary(rows: pd.DataFrame) -> pd.Series:
    """Return mean absolute errors, where Slurm said a start and of all, and coverage."""
    with_start, levels = rows[rows["said_s"].notna()], [f"q{level:.2f}" for level in LEVELS]
    figures = {"answers": len(rows), "told": len(with_start), "squeue": (with_start["said_s"] - with_start["was_s"]).abs().mean()}
    figures |= {name: (part["q0.50"] - part["was_s"]).abs().mean() for name, part in (("ours", with_start), ("ours, of all", rows))}
    figures |= {name: part["was_s"].mean() for name, part in (("now", with_start), ("now, of all", rows))}
    figures |= {
        f"{name}, median": (with_start[of] - with_start["was_s"]).abs().median()
        for name, of in (("squeue", "said_s"), ("ours", "q0.50"))
    }
    figures["now, median"] = with_start["was_s"].median()
    for low, high in zip(levels[:3], levels[:-4:-1], strict=True):
        figures[f"{low} to {high}"] = rows["was_s"].between(rows[low] - 1, rows[high]).mean()
    return pd.Series(figures | {"processor seconds": rows.groupby("moment")["spent_s"].first().mean()})


def main() -> None:
    options = parser(__doc__).parse_args()
    rows = pd.concat([answers(options.shared / "slurm", run) for run in RUNS], ignore_index=True)
    print(rows.groupby("run").apply(summary).T.to_string(float_format="%.3g"))
    if options.write:
        write_rows(STUDIES / "data" / "squeue-starts.csv", rows)


if __name__ == "__main__":
    main()
