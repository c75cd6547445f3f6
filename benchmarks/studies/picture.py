"""Draw the example of docs/explanation/harm.md, four jobs.

``python -m benchmarks.studies.picture`` prints what it shows, ``--write`` draws docs/harm-example.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import HOUSE
from features import jobs_from
from models.runtime.distribution import LEVELS
from models.runtime.protocol import TablePredictor
from pipelines.report.page import encode, figure
from sim.schedule import Schedule
from sim.simulation import simulate

_SKY, _ORANGE = "#56b4e9", "#e69f00"
HOUR_S = 3600
EXAMPLE = pd.DataFrame(
    {
        "job_id": [1, 2, 3, 4],
        "user": ["running", "head", "long", "short"],
        "procs": [60, 100, 40, 40],
        "submit_s": [0, 600, 1200, 1800],
        "runtime_s": [2 * HOUR_S, 3 * HOUR_S, 9 * HOUR_S, HOUR_S // 2],
        "requested_s": [10 * HOUR_S, 4 * HOUR_S, 9 * HOUR_S, 12 * HOUR_S],
    }
)
USUAL_H = {"running": (1.0, 3.0), "head": (2.0, 4.0), "long": (8.0, 9.0), "short": (0.3, 0.7)}
"""Between which hours each job's like have run, evenly."""
PROCS = 100


def example() -> dict[str, Schedule]:
    """Return the example of docs/explanation/harm.md by EASY with requested times, and by Harm with the distributions ``USUAL_H``."""
    low, high = (HOUR_S * np.array([USUAL_H[user][end] for user in EXAMPLE["user"]])[:, None] for end in (0, 1))
    quantiles = pd.DataFrame(low + (high - low) * LEVELS, columns=LEVELS)
    predictor = TablePredictor("told", lambda _: quantiles.mean(axis=1).to_numpy(), quantiles=lambda _: quantiles)
    jobs = jobs_from(EXAMPLE)
    return {
        "EASY, requested times": simulate(jobs, procs=PROCS),
        "Harm, distributions": simulate(jobs, procs=PROCS, scheduler="Harm", predictor=predictor),
    }


def draw_example(schedules: dict[str, Schedule]) -> bytes:
    """Draw schedules of the example below each other; a job is as high as it is wide in processors."""
    colours = dict(zip(EXAMPLE["user"], ("#c3cad1", _SKY, _ORANGE, "#5fc9a8"), strict=True))
    with figure(8.6, 3.4, generated=False) as canvas:
        for axes, (title, schedule) in zip(canvas.subplots(len(schedules), 1, sharex=True), schedules.items(), strict=True):
            for job in schedule.jobs.to_dict("records"):
                begin, end = job["start_s"] / HOUR_S, job["end_s"] / HOUR_S
                floor = 60 if job["procs"] == 40 and begin < 1 else 0
                axes.bar(begin, job["procs"], end - begin, floor, align="edge", color=colours[job["user"]], edgecolor="white")
                axes.text((begin + end) / 2, floor + job["procs"] / 2, job["user"], ha="center", va="center", fontsize=8)
            axes.set(title=title, ylabel="processors", ylim=(0, PROCS))
        axes.set_xlabel("hours")
        return encode(canvas, "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HOUSE / "docs", help="where --write draws")
    parser.add_argument("--write", action="store_true", help="draw it")
    options = parser.parse_args()
    schedules = example()
    for title, schedule in schedules.items():
        print(title, dict(zip(schedule.jobs["user"], schedule.jobs["start_s"] / HOUR_S, strict=True)))
    if options.write:
        (options.out / "harm-example.png").write_bytes(draw_example(schedules))


if __name__ == "__main__":
    main()
