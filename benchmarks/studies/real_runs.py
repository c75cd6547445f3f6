"""Judge what is known before a start on real control runs, beside the application's own earlier median.

The runs are those of the public repository ``hpcgroup/perf-variability-ipdps26`` at commit d025046 (four applications on Perlmutter and
Frontier, December 2024 to April 2025). It has no licence, so none of its files is here: ``RUNS`` is a copy of its folder ``plot``. Of
``<system>/overall/all_<system>.csv`` the columns ``app_name run_time job_id runtime`` are read, and where it is there, of
``<system>/neighborhood/<application>_performance_analysis.csv`` the four counts of other jobs and their nodes. These were counted over a
step of the job that lasts a minute and comes after its first minutes, so they tell more than a scheduler knows before the start.

Known before a start are: the last runtime of the application and of each other one (a probe), each over its earlier median and not older
than ``FRESH_S``, the age of the application's, hour and weekday. Two questions, both walking forward. How long will it take? From the
``FIRST``-th run on, each run is predicted by the median of all its application's ended runs, of the last five, and by extra trees of the
logarithm of its ratio to that median, trained anew each day on the ended runs of the system. Does it vary? ``models.variability.evaluation
.forward``, as the nights judge a champion, beside warning of every run and the last five runs' median. ``--write`` writes card and rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import f1_score

from benchmarks.common.card import Card, parser, study
from features.clock import DAY_S
from features.monitoring.labels import BINARY, baselines, z_scores
from models.variability.evaluation import Learning, earlier_medians, forward
from models.variability.time_blocks import times_of

SYSTEMS = ("perlmutter", "frontier")
CLASSIFIERS = ("extra-trees", "lightgbm", "knn")
NEIGHBOURS = ("num_concurrent_jobs", "total_concurrent_nodes", "concurrent_nodes_in_same_group", "avg_group_ratio")
FIRST, LEARNED_FROM_DAY = 10, 21
HOUR_S = 3600
FRESH_S = 12 * HOUR_S
ALL = 10**6


def runs_of(folder: Path, system: str) -> pd.DataFrame:
    """Return runs in order of starts: ``application start_s runtime_s`` and, NaN where there are none, ``NEIGHBOURS``."""
    table = pd.read_csv(folder / system / "overall" / f"all_{system}.csv", dtype={"job_id": str})
    stamp = table["run_time"].str.replace("_", " ").str.replace(r" (\d\d)-(\d\d)-(\d\d)$", r" \1:\2:\3", regex=True)
    start_s = (pd.to_datetime(stamp) - pd.Timestamp(0)).dt.total_seconds().astype(np.int64)
    runs = pd.DataFrame(
        {"job_id": table["job_id"], "application": table["app_name"], "start_s": start_s, "runtime_s": table["runtime"]}
    )
    files = sorted((folder / system / "neighborhood").glob("*_performance_analysis.csv"))
    near = [pd.read_csv(file, dtype={"JobID": str}).set_index("JobID")[list(NEIGHBOURS)] for file in files]
    around = pd.concat(near) if near else pd.DataFrame(columns=list(NEIGHBOURS), dtype=np.float64)
    return runs.join(around, on="job_id").drop(columns="job_id").sort_values("start_s", kind="stable").reset_index(drop=True)


def before_starts(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what is known before each start: float64 [runs, columns], NaN where unknown."""
    times, start = times_of(runs), runs["start_s"].to_numpy(np.float64)
    ratio = runs["runtime_s"].to_numpy() / earlier_medians(runs, ALL)
    before = pd.DataFrame({"hour": start / HOUR_S % 24, "weekday": start // DAY_S % 7})
    for name, rows in runs.groupby("application").indices.items():
        by_end = rows[np.argsort(times.end_s[rows])]
        last = by_end[np.maximum(np.searchsorted(times.end_s[by_end], start, side="right") - 1, 0)]
        age = start - times.end_s[last]
        fresh = (age >= 0) & (age < FRESH_S)
        before[f"probe {name}"] = np.where(fresh, ratio[last], np.nan)
        before.loc[rows, "own last"] = np.where(age[rows] >= 0, ratio[last[rows]], np.nan)
        before.loc[rows, "own age"] = np.where(age[rows] >= 0, age[rows], np.nan)
        before[f"is {name}"] = runs["application"] == name
    return before.astype(np.float64)


def learned_runtimes(runs: pd.DataFrame, before: pd.DataFrame) -> np.ndarray:
    """Return each run's runtime in seconds as trees of the ended runs predict it; NaN with fewer than ``FIRST`` of these."""
    times, median = times_of(runs), earlier_medians(runs, ALL)
    target, table = np.log(runs["runtime_s"].to_numpy() / median), before.fillna(-1.0).to_numpy()
    predicted = np.full(len(runs), np.nan)
    day = times.start_s // DAY_S
    for number in np.unique(day):
        rows = np.flatnonzero((day == number) & np.isfinite(median))
        ended = np.flatnonzero((times.end_s <= number * DAY_S) & np.isfinite(target))
        if len(ended) >= FIRST and len(rows):
            trees = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0).fit(table[ended], target[ended])
            predicted[rows] = median[rows] * np.exp(trees.predict(table[rows]))
    return predicted


def warned(runs: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """Return F1 of warnings, walking forward from ``LEARNED_FROM_DAY`` on: ``way f1 runs varied warned``."""
    since_s = int(runs["start_s"].min()) + LEARNED_FROM_DAY * DAY_S
    judged = forward(before, runs, since_s, Learning(CLASSIFIERS))
    ended = runs[(runs["start_s"] + runs["runtime_s"]) <= since_s]
    usual = baselines(ended["application"], ended["runtime_s"])
    own = runs.loc[judged["row"]]
    medians = pd.Series(earlier_medians(runs), runs.index).loc[judged["row"]].fillna(own["runtime_s"])
    judged["median of five"] = z_scores(own["application"], medians, usual) > BINARY[0]
    judged["warn of every run"] = True
    rows = []
    for way in (*CLASSIFIERS, "median of five", "warn of every run"):
        f1 = f1_score(judged["varied"].astype(bool), judged[way].astype(bool), zero_division=0)
        rows.append((way, f1, len(judged), int(judged["varied"].sum()), int(judged[way].sum())))
    return pd.DataFrame(rows, columns=["way", "value", "runs", "varied", "warned"])


def measured(folder: Path) -> pd.DataFrame:
    """Return the rows of the study: mean absolute errors in % by application and way, and F1 of warnings by system."""
    rows = []
    for system in SYSTEMS:
        runs = runs_of(folder, system)
        before = before_starts(runs)
        ways = {
            "median": earlier_medians(runs, ALL),
            "median of five": earlier_medians(runs),
            "trees": learned_runtimes(runs, before),
        }
        if runs[list(NEIGHBOURS)].notna().any(axis=None):
            ways["trees, neighbours"] = learned_runtimes(runs, before.join(runs[list(NEIGHBOURS)]))
        for application, own in runs.groupby("application").indices.items():
            late = own[FIRST:]
            late = late[np.all([np.isfinite(predicted[late]) for predicted in ways.values()], axis=0)]
            counted = runs.loc[own, list(NEIGHBOURS)].notna().any(axis=None)
            for way, predicted in ways.items():
                if way == "trees, neighbours" and not counted:
                    continue
                errors = 100 * np.abs(predicted[late] / runs["runtime_s"].to_numpy()[late] - 1)
                rows.append(
                    {
                        "system": system,
                        "application": application,
                        "measure": "error, %",
                        "way": way,
                        "value": errors.mean(),
                        "runs": len(late),
                    }
                )
        rows += warned(runs, before).assign(system=system, application="all", measure="F1").to_dict("records")
    return pd.DataFrame(rows)


def card(rows: pd.DataFrame, how: str) -> Card:
    """Return the card of the study."""
    errors = rows[rows["measure"] == "error, %"]
    table = errors.pivot_table(index=["system", "application"], columns="way", values="value", sort=False)
    runs = errors.groupby(["system", "application"], sort=False)["runs"].first()
    medians, learned = table[["median", "median of five"]].min(axis=1), table[["trees", "trees, neighbours"]].min(axis=1)
    better = [f"{name} on {system.title()}" for (system, name) in table.index[learned < medians]]
    ways = ["median", "median of five", "trees", "trees, neighbours"]
    cells = [
        [f"{system}, {name}", str(runs[system, name]), *("–" if pd.isna(row[way]) else f"{row[way]:.1f}" for way in ways)]
        for (system, name), row in table.iterrows()
    ]
    varied = rows[rows["measure"] == "F1"].groupby("system")["varied"].first()
    f1 = rows[rows["measure"] == "F1"].set_index(["system", "way"])["value"]
    best, always, five = (
        {system: f1[system][list(ways)].max() for system in SYSTEMS}
        for ways in (CLASSIFIERS, ("warn of every run",), ("median of five",))
    )
    warnings = ", ".join(f"{best[s]:.3f} against {always[s]:.3f} and {five[s]:.3f} on {s.title()}" for s in SYSTEMS)
    return Card(
        question="Does what is known before a start beat the application's median on real runs?",
        answer=f"No: of {len(table)} applications, the median of the application's own earlier runs errs least on {len(table) - len(better)}; "
        f"trees of what is known before a start err less only for {', '.join(better) or 'none'}. Warnings of variation are no better: the best "
        f"classifier's F1, against warning of every run and the last five runs' median, is {warnings}.",
        table=pd.DataFrame(cells, columns=["system, application", "runs", *ways]),
        table_caption="Mean absolute error of the runtime in %, walking forward from each application's eleventh run; less is better:",
        fails=f"Few runs vary ({int(varied.sum())} of those judged), and F1 says little of so few. Neighbours were read for one application "
        "alone, deepCAM on Frontier, and were counted during the run, so a scheduler knows less; probes of GPUs name no job, and counters "
        "are not published by run. Times are to the minute and runtimes to 0.01 s. Two breaks, AMG2023 on Perlmutter in February and on "
        "Frontier in January, look like changes of the setup: five runs forget them sooner. Published errors before a start: 1.2 to 5.2 % "
        "on Perlmutter, 1.5 to 25 % on Frontier. `PLOT` is the repository's folder.",
        data=["real-runs.csv"],
        made_by=how,
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("runs", type=Path, nargs="?", help="the repository's folder plot")
    options = arguments.parse_args()
    study(options, "studies.real_runs", "real-runs.csv", lambda: measured(options.runs), card)


if __name__ == "__main__":
    main()
