"""Draw the pictures of docs/harm.md: of four traces from the data of ``expected_harm``, and the example.

``python -m benchmarks.studies.picture`` prints what they show, ``--write`` draws docs/harm.png and docs/harm-example.png. Of traces
nothing is simulated; the example is four jobs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.common.pages import HOUSE, STUDIES
from benchmarks.studies.expected_harm_tables import PLAIN
from features import jobs_from
from models.runtime.protocol import TablePredictor
from models.runtime.remaining import LEVELS
from pipelines.report.style import INK, MUTED, encode, figure
from sim.schedule import Schedule
from sim.simulate import simulate

DATA = STUDIES / "data" / "expected-harm.parquet"
_ORANGE, _SKY, _BLUE, _GREEN, _RED, _PINK = "#e69f00", "#56b4e9", "#0072b2", "#009e73", "#d55e00", "#cc79a7"
SHOWN = {
    ("EASY-SJBF", "quantile"): ("EASY-SJBF, quantile", _ORANGE),
    ("SRF-EASY", "requested"): ("SRF-EASY, starvation 1 day", _GREEN),
    ("F1-EASY", "requested"): ("F1-EASY, starvation 1 day", _RED),
    ("SAF-EASY", "requested"): ("SAF-EASY, starvation 1 day", _PINK),
    ("Harm", "prior"): ("Harm, no model", _SKY),
    ("Harm", "quantile"): ("Harm, quantile", _BLUE),
    ("EASY", "clairvoyant"): ("a bound: EASY, exact runtimes", MUTED),
}
"""What is drawn: label and colour by scheduler and predictor, from the top."""
METRICS = {"slowdown": "slowdown", "AWF": "packing (AWF)", "P2SF": "fairness (P2SF)"}
AXES = {"slowdown": (-80.0, 50.0), "AWF": (-25.0, 35.0), "P2SF": (-50.0, 75.0)}
"""Ends of the axes in per cent, with room for the numbers; a change or an interval beyond is cut, and its number printed."""

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


def dots(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trace, policy and metric, in the order drawn: ``trace label colour metric relative low high``.

    ``table`` is the data of the study. KeyError for a policy that it does not have of each trace.
    """
    ordered = (table["section"] == "plain") | ~table["scheduler"].isin(PLAIN)
    rows = table[table["section"].isin(["headline", "rivals", "plain"]) & ordered].set_index(
        ["trace", "scheduler", "predictor", "metric"]
    )
    made = [
        {"trace": trace, "label": label, "colour": colour, "metric": metric, **rows.loc[(trace, *policy, metric), ["relative", "low", "high"]]}
        for trace in table["trace"].unique()
        for policy, (label, colour) in SHOWN.items()
        for metric in METRICS
    ]  # fmt: skip
    return pd.DataFrame(made)


def draw(made: pd.DataFrame) -> bytes:
    """Draw a row of panels a trace, a column a metric: changes with their intervals."""
    traces = list(made["trace"].unique())
    with figure(8.6, 1.0 + 1.35 * len(traces), generated=False) as canvas:
        panels = canvas.subplots(len(traces), len(METRICS), sharex="col", squeeze=False)
        for (trace, metric), rows in made.groupby(["trace", "metric"], sort=False):
            axes = panels[traces.index(str(trace))][list(METRICS).index(str(metric))]
            _changes(axes, rows.reset_index(drop=True))
        for row, trace in zip(panels, traces, strict=True):
            row[0].set_ylabel(trace, fontweight="bold", color=INK)
        for axes, (metric, title) in zip(panels[0], METRICS.items(), strict=True):
            axes.set(title=title, xlim=AXES[metric])
        handles = [Line2D([], [], marker="o", color=colour, label=label) for label, colour in SHOWN.values()]
        canvas.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8)
        canvas.supxlabel("change against EASY with requested times, %: left is better", fontsize=9)
        return encode(canvas, "png")


def _changes(axes: Axes, rows: pd.DataFrame) -> None:
    axes.axvline(0.0, color=MUTED, linewidth=1)
    for place, row in enumerate(rows.to_dict("records")):
        most = 0.7 * AXES[str(row["metric"])][1]
        change = min(100 * row["relative"], most)
        axes.plot(np.minimum([100 * row["low"], 100 * row["high"]], most), [place, place], color=row["colour"], linewidth=2)
        if 100 * row["high"] > most:
            axes.plot(most, place, ">", color=row["colour"], markersize=5)
        axes.plot(change, place, "o" if change < most else ">", color=row["colour"], markersize=5)
        text = f"{100 * row['relative']:+.{int(abs(row['relative']) < 0.1)}f}".replace("-", "−")
        axes.annotate(text, (1.0, place), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=8, color=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])


def example() -> dict[str, Schedule]:
    """Return the example of docs/harm.md by EASY with requested times, and by Harm with the distributions ``USUAL_H``."""
    low, high = (HOUR_S * np.array([USUAL_H[user][end] for user in EXAMPLE["user"]])[:, None] for end in (0, 1))
    quantiles = pd.DataFrame(low + (high - low) * LEVELS, columns=LEVELS)
    told = TablePredictor("told", lambda _: quantiles.mean(axis=1).to_numpy(), quantiles=lambda _: quantiles)
    jobs = jobs_from(EXAMPLE)
    return {
        "EASY, requested times": simulate(jobs, procs=PROCS),
        "Harm, distributions": simulate(jobs, procs=PROCS, scheduler="Harm", predictor=told),
    }


def draw_example(made: dict[str, Schedule]) -> bytes:
    """Draw schedules of the example below each other; a job is as high as it is wide in processors."""
    colours = dict(zip(EXAMPLE["user"], ("#c3cad1", _SKY, _ORANGE, "#5fc9a8"), strict=True))
    with figure(8.6, 3.4, generated=False) as canvas:
        for axes, (title, schedule) in zip(canvas.subplots(len(made), 1, sharex=True), made.items(), strict=True):
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
    parser.add_argument("--data", type=Path, default=DATA, help="the data of the study")
    parser.add_argument("--out", type=Path, default=HOUSE / "docs", help="where --write draws")
    parser.add_argument("--write", action="store_true", help="draw both")
    options = parser.parse_args()
    pictures = {"harm-example.png": draw_example(example())}
    for title, schedule in example().items():
        print(title, dict(zip(schedule.jobs["user"], schedule.jobs["start_s"] / HOUR_S, strict=True)))
    if options.data.exists():
        made = dots(pd.read_parquet(options.data))
        print(made.drop(columns="colour").round(3).to_string(index=False))
        pictures["harm.png"] = draw(made)
    if options.write:
        for name, picture in pictures.items():
            (options.out / name).write_bytes(picture)


if __name__ == "__main__":
    main()
