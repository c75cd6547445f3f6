"""Judge what a Slurm site's simulations answer about starts, on recorded runs.

``python -m benchmarks.studies.slurm_starts FOLDER RUN [RUN ...]`` asks about all waiting jobs at ``MOMENTS`` moments of each run, as
``queuecast when`` does without a trained model. Jobs that a user holds are not asked about.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from models.packed.start_distribution import LEVELS
from models.packed.start_predictor import QUANTILES
from models.runtime.evaluation import pinball
from models.starts.evaluation import INTERVALS
from pipelines.readers.queue_file import is_held, queue_at
from pipelines.studies.parity import read_site_jobs
from pipelines.studies.when import queue_of, record_of

MOMENTS, SCENARIOS = 40, 16


def answered(folder: Path, run: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantiles, [jobs, ``LEVELS``] seconds, and the waits from the question on, seconds, of a run's waiting jobs."""
    of_run = folder / "sites" / run
    site, jobs = read_site_jobs(
        folder / f"{run}.sacct.txt", of_run if of_run.exists() else of_run.with_name(run.split("-")[0]), "UTC"
    )
    table, record = jobs.table, record_of(site, jobs, "UTC")
    start_s = dict(zip(table["job_id"].astype(str), table["start_s"].to_numpy(np.float64), strict=True))
    answers, waits = [], list[float]()
    for now_s in np.linspace(table["submit_s"].min(), table["submit_s"].max(), MOMENTS + 2)[1:-1].astype(int).tolist():
        snapshot = queue_at(table, now_s)
        queue = queue_of(record, snapshot, now_s, scenarios=SCENARIOS)
        held = set(snapshot["job_id"][is_held(snapshot)])
        asked = np.array(
            [row for row in queue.waiting if queue.job_id[row] not in held and start_s[queue.job_id[row]] >= 0], np.int64
        )
        if len(asked):
            forecasts = [each.forecast for each in queue.answered(None, asked)]
            answers.append(np.array([[each[name] for name in QUANTILES] for each in forecasts]))
            waits += [start_s[queue.job_id[row]] - now_s for row in asked]
    return np.round(np.concatenate(answers)), np.array(waits)


def main(arguments: list[str]) -> None:
    """Print a line for each run."""
    folder, runs = Path(arguments[0]), arguments[1:]
    for run in runs:
        quantiles, waited_s = answered(folder, run)
        at = dict(zip(LEVELS, quantiles.T, strict=True))
        held = {
            f"{share:.0%}": float(((waited_s >= at[low]) & (waited_s <= at[high])).mean())
            for share, (low, high) in INTERVALS.items()
        }
        loss_s = pinball(quantiles, waited_s[:, None], np.array(LEVELS)).mean()
        figures = ", ".join(f"{name} hold {100 * share:.0f} %" for name, share in held.items())
        print(f"{run}: {len(waited_s):,} answers; intervals of {figures}; loss {loss_s:.2f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
