"""Compare predicted starts on Graham's noons with three baselines, and write the card.

The judged program :mod:`benchmarks.studies.queue_snapshots` answers days 31 to 61. Baselines know as much: LightGBM's quantiles of
the logarithm of waits, from the same inputs, of jobs that have started, renewed every eight days; the quantiles of the last waits of
the job's partition; and those of all waits. ``--write`` writes the card and its rows, a row a method and day.
"""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd

from benchmarks.common.card import Card, parser, study
from benchmarks.studies.daily_starts import quantiles_daily
from benchmarks.studies.queue_snapshots import asked_of, described, figures, waiting_jobs, waits_of
from features.clock import DAY_S
from features.statistics import Ratio, interval_of_change, surely
from models.packed.start_distribution import LEVELS
from models.runtime.distribution import losses

FIRST, LAST, RENEWED_DAYS, LAST_WAITS = 31, 61, 8, 200
OURS, BASELINES = "ours", ("LightGBM, started jobs", "partition's last waits", "all waits")
HOURS = 3_600.0


def by_lightgbm(states: np.ndarray, at_s: np.ndarray, start_s: np.ndarray, now_s: int, asked: np.ndarray) -> np.ndarray:
    """Return quantiles of waits, [jobs, ``LEVELS``] seconds, from jobs that had started by ``now_s``."""
    started = start_s < now_s
    quantiles = []
    for level in LEVELS:
        parameters = {"objective": "quantile", "alpha": level, "num_leaves": 31, "learning_rate": 0.08, "min_data_in_leaf": 50}
        parameters |= {"feature_fraction": 0.5, "num_threads": 1, "verbosity": -1, "seed": 0, "deterministic": True}
        rows = lightgbm.Dataset(states[started], np.log((start_s - at_s)[started]), params={"verbosity": -1, "max_bin": 127})
        quantiles.append(np.exp(lightgbm.train(parameters, rows, 150).predict(states[asked])))
    return np.sort(np.column_stack(quantiles), axis=1)


def baselines(table: pd.DataFrame, states: np.ndarray, asked: np.ndarray) -> dict[str, np.ndarray]:
    """Return the answers of each baseline to the rows ``asked``, [jobs, ``LEVELS``] seconds."""
    at_s, start_s, partition = (table[name].to_numpy(np.int64) for name in ("at_s", "start_s", "queue"))
    answers = {name: np.full((len(table), len(LEVELS)), np.nan) for name in BASELINES}
    moments = np.unique(at_s[asked])
    for now_s in moments.tolist():
        here = at_s == now_s
        if (now_s - moments[0]) // DAY_S % RENEWED_DAYS == 0:
            days = asked & (at_s >= now_s) & (at_s < now_s + RENEWED_DAYS * DAY_S)
            answers[BASELINES[0]][days] = by_lightgbm(states, at_s, start_s, now_s, days)
        started = np.flatnonzero(start_s < now_s)
        started = started[np.argsort(start_s[started], kind="stable")]
        constant = np.quantile((start_s - at_s)[started], LEVELS)
        answers[BASELINES[2]][here] = constant
        for each in np.unique(partition[here]):
            last = started[partition[started] == each][-LAST_WAITS:]
            answers[BASELINES[1]][here & (partition == each)] = (
                np.quantile((start_s - at_s)[last], LEVELS) if len(last) else constant
            )
    return {name: each[asked] for name, each in answers.items()}


def measured(shared: pd.DataFrame | object) -> pd.DataFrame:
    """Return a row a method and day: its figures, and sums of losses."""
    table = waiting_jobs(shared / "queues" / "graham-2021.parquet", LAST)  # type: ignore[operator]
    states, asked = described(table), asked_of(table, FIRST)
    at_s, start_s = waits_of(table)
    ours = quantiles_daily(states, at_s, start_s, int(at_s[asked].min()))[asked]
    waited, day, rows = (start_s - at_s)[asked].astype(np.float64), table["day"].to_numpy(np.int64)[asked], []
    for method, answers in {OURS: ours, **baselines(table, states, asked)}.items():
        loss = losses(answers, np.array(LEVELS), waited).mean(axis=1) / HOURS
        for number in np.unique(day):
            here = day == number
            result = figures(answers[here], waited[here], day[here])
            rows.append({"method": method, "day": number, **result, "loss_h": loss[here].mean()})
    return pd.DataFrame(rows).drop(columns="held_80_by_day")


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row a method: means over questions, and our loss over its own with its interval over days."""
    numbers = ["mse_log10", "within_2", "held_50", "held_80", "held_90", "loss_h"]
    weighted = rows[numbers].mul(rows["questions"], axis=0).assign(questions=rows["questions"])
    sums = weighted.groupby(rows["method"]).sum()
    means = sums[numbers].div(sums["questions"], axis=0).loc[[OURS, *BASELINES]]
    jobs = rows[rows["method"] == OURS]["questions"].to_numpy(np.float64)[None]
    loss = {method: Ratio(group["loss_h"].to_numpy()[None] * jobs, jobs) for method, group in rows.groupby("method")}
    changes = {name: interval_of_change(loss[OURS], loss[name]) for name in BASELINES}
    sure = surely([np.nan if each.p is None else each.p for each in changes.values()])
    means["change"] = ["", *(f"{100 * each.low:+.0f} to {100 * each.high:+.0f} %" for each in changes.values())]
    return means.assign(sure=[False, *sure])


def card(rows: pd.DataFrame, how: str) -> Card:
    """Return the card of the study."""
    means = compared(rows)
    ours, by_day = means.loc[OURS], rows[rows["method"] == OURS]["held_80"]
    cells = [
        [
            method,
            f"{each['mse_log10']:.3f}",
            f"{100 * each['within_2']:.1f} %",
            "/".join(f"{100 * each[f'held_{share}']:.0f}" for share in (50, 80, 90)),
            f"{each['loss_h']:.2f}",
            each["change"],
        ]
        for method, each in means.iterrows()
    ]
    return Card(
        question="How well are starts on a production cluster predicted?",
        answer=f"On days 31 to 61 of Graham's noons the median misses by a mean square of {ours['mse_log10']:.3f} in log10 seconds, "
        f"{100 * ours['within_2']:.1f} % of starts lie within a factor of two, and 80 % intervals hold {100 * ours['held_80']:.0f} %. "
        f"Of days, {100 * (by_day >= 0.6).mean():.0f} % hold at least 60 % (worst {100 * by_day.min():.0f} %).",
        table=pd.DataFrame(
            cells, columns=["method", "MSE log10 s", "within 2", "50/80/90 % held", "pinball loss, h", "ours relative to it"]
        ),
        table_caption="61 noons of Slurm, jobs submitted since midnight; settings were chosen on days 1 to 30; the third look at the others. "
        "Loss: mean of seven levels; intervals (95 %) over days:",
        fails="Three aims are missed: intervals hold more than 83 %, fewer than nine of ten days 60 %, and the loss is not surely below "
        "LightGBM's. Days, not jobs, decide: when a cluster stalls, all answers of a day err to one side. The table has only jobs that "
        "started, submitted since midnight. Columns `q_*_run_hours` are known later and not read. Published: 0.658, on random days. A first "
        "look gave 0.291, 55.1 %, 84 %, 27 of 31 days and a loss surely below LightGBM's (-23 to -3 %), a second, with finer first bins, 0.304. "
        "The third, above, moved medians half of the way to least squares of log seconds (days 13 to 30: 0.332 to 0.317). It was the last. Days "
        "13 to 30 give no reason for narrower intervals: 80.9 % hold, by day with a standard deviation of 12 points, so 31 days of right "
        "intervals hold 76 to 84 %. Left out there: calibrating moved answers (5 points more to 1 less); each side by itself (81.9 %, loss "
        "1.4 % higher); adaptive conformal inference (log loss 1.4 to 2.6 % higher).",
        data=["queue-snapshots.csv"],
        made_by=how,
    )


def main() -> None:
    options = parser(__doc__).parse_args()
    study(options, "studies.queue_snapshots_card", "queue-snapshots.csv", lambda: measured(options.shared), card)


if __name__ == "__main__":
    main()
