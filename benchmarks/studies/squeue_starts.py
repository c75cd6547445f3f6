"""Ask a real Slurm's queue when its jobs will start, beside what ``squeue --start`` said.

At each sampled moment of a recorded run a waiting job's start is the median of 64 scenarios (:mod:`sim.site_ahead`), beside what Slurm
expected: of micro-1 ``squeue``'s sample every ten seconds, of pair-A and pair-B the plans that each backfill cycle logged. A scenario
knows what was known: submissions with their options, starts, nodes and ends so far. Runtimes are drawn as shares of the limit from a
Kaplan-Meier estimate over all jobs so far, in which those that run are censored, and jobs of the same user, name and array weigh more. In each of 16
draws the submissions so far come again, from a random moment on; having gone on for so long, they go on beyond x times that with
probability 1 / x (Gott 1993). All this was fixed on pair-A and the first 97 moments of micro-1.
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
from pipelines.workflows.parity import read_site_jobs
from sim.site_ahead import starts_ahead
from sim.slurm.begin import LEAD_S
from sim.slurm.site import Site

SCENARIOS, DRAWS, LEVELS = 64, 16, (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
RUNS = {"micro-1": ("micro", "micro-1"), "pair-A": ("pair", "pair"), "pair-B": ("pair", "pair")}
USER, NAME, ARRAY, PRIOR = 4.0, 4.0, 20.0, 2.0
HORIZON_S, LEAST_SPAN_S = 1_200, 60
POLL_S = 30  # a job ends at the first poll of limits after its limit
_LOGGED = re.compile(
    r"\[(\S+)\] sched/backfill: (?:_attempt_backfill: beginning|_dump_job_sched: JobId=(\d+(?:_\d+)?)(_\*)? to start at (\S+),)"
)
FIXED_ON = 97  # moments of micro-1, its first 1,083 of 1,608 seconds with waiting jobs


def unix(text: str) -> float:
    """Return a time of the logs, which are in UTC, in Unix seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def recorded(shared: Path, run: str) -> tuple[Site, pd.DataFrame]:
    """Return the site of a run and its jobs, with options that accounting lacks."""
    site, stated = RUNS[run]
    found, jobs = read_site_jobs(shared / f"{run}.sacct.txt", shared / "sites" / site, "UTC")
    table, numbers = jobs.table, sorted(jobs.table["group"].unique())
    with (shared / f"{stated}.csv").open() as file:
        asked = dict(zip(numbers, csv.DictReader(file), strict=True))
    table[["throttle", "after", "name"]] = [
        (int(row["array"].partition("%")[2] or 0), str(numbers[int(row["after"])]) if row["after"] else "", row["name"])
        for row in table["group"].map(asked)
    ]
    return found, table.assign(eligible_s=-1, held_s=-1)


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
        for found in filter(None, map(_LOGGED.match, file)):
            if not found[2]:
                cycles.append((unix(found[1]), {}))
                continue
            tasks = jobs["job_id"][jobs["group"] == int(found[2])] if found[3] else [found[2]]
            cycles[-1] = (unix(found[1]), cycles[-1][1] | dict.fromkeys(tasks, unix(found[4])))
    for now_s, plans in cycles:
        waits = by_id.index[(by_id["submit_s"] < np.floor(now_s)) & (by_id["start_s"] > now_s)]
        yield now_s, pd.Series(plans, dtype=np.float64).reindex(waits)


def drawn(known: pd.DataFrame, asked: pd.DataFrame, scenarios: int, now_s: float, random: np.random.Generator) -> np.ndarray:
    """Draw runtimes of ``asked`` jobs, float64 [scenarios, jobs], from those ``known``."""

    def shares(jobs: pd.DataFrame) -> np.ndarray:
        until = jobs["end_s"].fillna(now_s).to_numpy()
        return np.nan_to_num((until - jobs["start_s"].to_numpy()) / jobs["limit_s"].to_numpy())

    seen = known[known["start_s"].notna()]
    share = np.concatenate((np.minimum(shares(seen), 1.0), np.arange(1, 11) / 10))
    ended = np.concatenate((seen["end_s"].notna(), np.ones(10, bool)))
    order = np.lexsort((~ended, share))
    knots, ended = np.concatenate(([0.0], share[order], [1.0])), ended[order]
    limit, so_far, uniforms = asked["limit_s"].to_numpy(np.float64), shares(asked), random.random((2, scenarios, len(asked)))
    runtimes, masses = np.tile(limit * so_far, (scenarios, 1)), dict[tuple[str, str, int], np.ndarray]()
    users, names, arrays = (seen[name].to_numpy() for name in ("user", "name", "group"))
    for job, (user, name, group, end_s) in enumerate(asked[["user", "name", "group", "end_s"]].itertuples(index=False)):
        if end_s >= 0:
            continue
        key = (user, name, group * (group in arrays))
        if key not in masses:
            like = 1 + (users == user) * (USER + NAME * (names == name)) + ARRAY * (arrays == group)
            weight = np.concatenate((like, np.full(10, PRIOR / 10)))[order]
            left = np.cumprod(np.concatenate(([1.0], 1 - ended * weight / np.cumsum(weight[::-1])[::-1])))
            masses[key] = np.append(-np.diff(left), left[-1])  # what never ended before its limit ends there
        reach, (which, part) = np.cumsum(masses[key] * (knots[1:] > so_far[job])), uniforms[:, :, job]
        row = np.minimum(np.searchsorted(reach, which * reach[-1], side="right"), len(reach) - 1)
        low = np.maximum(knots[row], so_far[job])
        at = limit[job] * (low + part * np.maximum(knots[row + 1] - low, 0))
        killed = (row == len(reach) - 1) | (reach[-1] <= 0)
        runtimes[:, job] = np.maximum(np.where(killed, limit[job] + POLL_S * part, at), limit[job] * so_far[job] + 0.5)
    return runtimes


def arriving(known: pd.DataFrame, now_s: float, random: np.random.Generator) -> pd.DataFrame:
    """Return jobs yet to come: those so far, again and again."""
    first, latest = known["submit_s"].min(), known["submit_s"].max()
    until_s = min(first + (latest - first) / random.random(), now_s + HORIZON_S)
    span = max(now_s - first, LEAST_SPAN_S)
    again = (known["submit_s"] - first - random.random() * span) % span + now_s + 1
    every = range(int(max((until_s - now_s) // span + 1, 1)))
    rounds = [known.assign(submit_s=again + at * span, group=known["group"] + (at + 1) * 100_000) for at in every]
    made = pd.concat(rounds).sort_values(["submit_s", "group", "task"], kind="stable").astype({"submit_s": np.int64})
    made[["start_s", "end_s", "nodes", "after", "cancel_s", "killed"]] = [np.nan, np.nan, "", "", -1, False]
    return made[made["submit_s"] <= until_s]


def answers(shared: Path, run: str, part: slice = slice(None)) -> pd.DataFrame:
    """Return a row for each moment and waiting job; seconds count from the moment."""
    site, jobs = recorded(shared, run)
    usage_s, made = float(jobs["submit_s"].min()) - LEAD_S, list[pd.DataFrame]()
    for number, (now_s, said) in list(enumerate(samples(shared, run, jobs)))[part]:
        known = jobs[(jobs["submit_s"] <= now_s) | jobs["job_id"].isin(said.index)].reset_index(drop=True)
        start = known["start_s"].where(~known["job_id"].isin(said.index) & (known["start_s"] >= 0)).clip(upper=now_s)
        end = known["end_s"].where(start.notna() & (known["end_s"] <= now_s))
        then = known.assign(start_s=start, end_s=end, cancel_s=known["cancel_s"].where(known["cancel_s"] <= now_s, -1))
        then["killed"] &= end.notna()
        begun, random = time.process_time(), np.random.default_rng([number, 0x5A])
        runtimes = drawn(then, then, SCENARIOS, now_s, random)
        draws = [arriving(then, now_s, random).assign(draw=draw) for draw in range(DRAWS)]
        more = pd.concat(draws).sort_values("submit_s", kind="stable", ignore_index=True)
        more["runtime_s"] = drawn(then, more, 1, now_s, random)[0]
        starts = starts_ahead(site, then, now_s, runtimes, SCENARIOS * number, more, usage_s)
        spent = time.process_time() - begun
        ids = then["job_id"][then["start_s"].isna() & (then["cancel_s"] < 0)]
        was = known.set_index("job_id")["start_s"][ids].to_numpy() - now_s
        levels = {f"q{level:.2f}": np.quantile(starts, level, axis=0, method="nearest") for level in LEVELS}
        about = {"run": run, "moment": number, "job": ids.to_numpy(), "was_s": was, "said_s": said.reindex(ids).to_numpy() - now_s}
        made.append(pd.DataFrame({**about, **levels, "spent_s": spent}))
    rows = pd.concat(made, ignore_index=True)
    return rows[rows["was_s"] >= 0]


def summary(rows: pd.DataFrame) -> pd.Series:
    """Return mean absolute errors, where Slurm said a start and of all, and coverage."""
    told, levels = rows[rows["said_s"].notna()], [f"q{level:.2f}" for level in LEVELS]
    figures = {"answers": len(rows), "told": len(told), "squeue": (told["said_s"] - told["was_s"]).abs().mean()}
    figures |= {name: (part["q0.50"] - part["was_s"]).abs().mean() for name, part in (("median", told), ("all", rows))}
    for low, high in zip(levels[:3], levels[:-4:-1], strict=True):
        figures[f"{low} to {high}"] = rows["was_s"].between(rows[low] - 1, rows[high]).mean()
    return pd.Series(figures | {"processor seconds": rows.groupby("moment")["spent_s"].first().mean()})


def main() -> None:
    options = parser(__doc__).parse_args()
    rows = pd.concat([answers(options.shared / "slurm", run) for run in RUNS], ignore_index=True)
    fixed_on = (rows["run"] == "pair-A") | ((rows["run"] == "micro-1") & (rows["moment"] < FIXED_ON))
    print(rows.groupby(["run", fixed_on.rename("fixed on")]).apply(summary).T.to_string(float_format="%.3g"))
    if options.write:
        write_rows(STUDIES / "data" / "squeue-starts.csv", rows)


if __name__ == "__main__":
    main()
