"""How often the reason that a job waits for is slurmctld's own.

``python -m benchmarks.studies.start_reasons ACCOUNTING LOG SITE [ACCOUNTING LOG SITE ...]`` takes recorded runs: accounting,
slurmctld's log with ``SlurmctldDebug=debug2`` and the site's folder. Every ``STEP_S`` seconds the queue is made from the
accounting as squeue would show it, without its column of reasons and with the priorities of the log, and each answer for a job of
which the log named a reason in the last ``FRESH_S`` seconds is compared with that reason's class.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.ingest.queue_file import asked_of, queue_at
from pipelines.ingest.text import text_of
from pipelines.workflows.parity import read_site_jobs
from sim.slurm.site import Site
from sim.starts.reasons import class_of, reasons, used_limits

STEP_S, FRESH_S = 15, 30
_TOLD = re.compile(
    r"\[([\dT:.-]+)\] .*sched: JobId=(\d+(?:_\d+)?)\S* unable to schedule.*(?<!Previous-)Reason=(\w+).*Priority=(\d+)"
)


def reasons_in(log: Path) -> pd.DataFrame:
    """Return what a log says of waiting jobs: ``at_s`` (Unix seconds), ``job_id``, ``reason``, ``priority``."""
    rows = []
    with text_of(log) as lines:
        for line in lines:
            if line_match := _TOLD.search(line.decode("utf-8", "replace")):
                at_s = datetime.fromisoformat(line_match[1]).replace(tzinfo=UTC).timestamp()
                rows.append((at_s, line_match[2], line_match[3], float(line_match[4])))
    return pd.DataFrame(rows, columns=["at_s", "job_id", "reason", "priority"])


def compared(site: Site, jobs: pd.DataFrame, named: pd.DataFrame) -> Counter[tuple[str, str]]:
    """Count answers by slurmctld's class of the reason and ours."""
    counts: Counter[tuple[str, str]] = Counter()
    for at_s in np.arange(named["at_s"].min(), named["at_s"].max(), STEP_S):
        queue = queue_at(jobs, int(at_s))
        latest = named[(named["at_s"] <= at_s)].groupby("job_id").last()
        fresh = latest[latest["at_s"] > at_s - FRESH_S]
        queue = queue.assign(job_id=queue["job_id"].astype(str))
        queue["throttle"] = queue["job_id"].map(jobs.set_index("job_id")["throttle"])
        queue["priority"] = queue["job_id"].map(latest["priority"])
        waits = queue.index[~queue["runs"].astype(bool) & queue["job_id"].isin(fresh.index)]
        if not len(waits):
            continue
        hidden = queue.assign(reason=queue["reason"].where(queue["reason"] == "JobHeldUser", ""))
        used = used_limits(site, asked_of(queue, site), queue["runs"].to_numpy(bool), [int(row) for row in waits])
        answers = reasons(hidden, queue.loc[waits, "job_id"].tolist(), site.procs, int(at_s), used)
        for job_id, answer in zip(queue.loc[waits, "job_id"], answers, strict=True):
            counts[class_of(fresh.loc[job_id, "reason"]) or fresh.loc[job_id, "reason"], answer.why] += 1
    return counts


def main(arguments: list[str]) -> None:
    """Print agreement and the confusion of classes for each recorded run, and for all."""
    everything: Counter[tuple[str, str]] = Counter()
    for accounting, log, folder in zip(*[iter(map(Path, arguments))] * 3, strict=True):
        site, jobs = read_site_jobs(accounting, folder, "UTC", "")
        counts = compared(site, jobs.table.assign(job_id=jobs.table["job_id"].astype(str)), reasons_in(log))
        everything += counts
        _print(log.name, counts)
    _print("all", everything)


def _print(name: str, counts: Counter[tuple[str, str]]) -> None:
    total, agreed = sum(counts.values()), sum(count for (theirs, ours), count in counts.items() if theirs == ours)
    print(f"{name}: {agreed:,} of {total:,} ({agreed / max(total, 1):.1%})")
    for (theirs, ours), count in sorted(counts.items(), key=lambda each: -each[1]):
        if theirs != ours:
            print(f"  slurmctld {theirs}, here {ours}: {count:,}")


if __name__ == "__main__":
    main(sys.argv[1:])
