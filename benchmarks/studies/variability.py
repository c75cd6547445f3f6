"""Measure how well variation is predicted on the simulated cluster ``congested``.

A run is labelled as varied if its z, by mean and standard deviation of its application over the training part, is above 1.5. Where
runtimes vary by pure Gaussian noise this labels 6.7 % of them, and no classifier can predict which, so two ceilings stand beside every
classifier, reached by the same learners under the same protocol: told the true contention as the run starts, which is all that counters
could ever say, and told the contention that the run was going to meet, which contains the future. *Against the truth* counts as varied
what would have varied without noise of its own.

In blocks of time five stretches of six days are judged by models trained on the other four, without the runs that see a minute of the
judged ones. One application left out is judged in each of three stretches by models that know neither it nor the stretch; one
classifier, as each is a training more. Sweeps (``--sweeps``) take a third of the days and leave no application out: sensors with more noise
or lag, and recursive elimination of columns inside each training part. Labels, cutoffs and columns come from training parts alone
(:mod:`models.variability.evaluation`); 95 % intervals are over days.

``python -m benchmarks.studies.variability`` prints tables, ``--write`` puts them into docs/studies/data/variability.csv; the card is made by
:mod:`benchmarks.studies.delays`. What was computed is kept under ``--keep``. The rows there were computed with first-fit placement.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from benchmarks.common.pages import STUDIES, kept
from benchmarks.common.tables import markdown, write_data
from features.monitoring.labels import baselines, z_scores
from features.monitoring.samplers import TYPE_FEATURES
from models.variability.classifiers import CLASSIFIERS
from models.variability.evaluation import ALL, BLOCKED, LEFT_OUT, Learning, difference, measured, predictions
from sim.cluster.applications import application
from sim.cluster.experiments import VARIES, control_runs
from sim.cluster.presets import CONGESTED, Cluster
from sim.cluster.simulate import ClusterRun

PAGE = STUDIES / "variability.md"
DAYS, EACH, SEED = 30, 450, 400
SWEEP_DAYS, SWEEP_EACH = 10, 200
START, RUN = "told at start", "told the run"
NOISES = (0.0, 0.1, 0.3, 1.0, 3.0)
LAGS = (0, 30, 90, 180, 270)
SWEPT = LEFT_OUT_BY = ("lightgbm",)
"""Classifiers that are swept, and that leave applications out: a fold for each and each stretch of time makes 21."""
ELIMINATED = "adaboost"
SAY = Console(stderr=True)


def ceiling_features(run: Runs | ClusterRun) -> dict[str, pd.DataFrame]:
    """What the two ceilings are told, beside the type of the application."""
    kind = run.own[list(TYPE_FEATURES)]
    return {
        START: pd.concat([run.runs[["start_network", "start_io"]], kind], axis=1),
        RUN: pd.concat([run.runs[["mean_network", "mean_io"]], kind], axis=1),
    }


def truth(runs: pd.DataFrame) -> np.ndarray:
    """Tell whether a run would have varied without noise of its own, int64 [runs].

    Contention alone lifts its z above 1.5.
    """
    alone = runs["application"].map({name: application(name).on(16).runtime_s for name in runs["application"].unique()})
    usual = baselines(runs["application"], runs["runtime_s"])
    return np.asarray(z_scores(runs["application"], runs["contention"] * alone, usual) > VARIES, np.int64)


def judged(run: Runs | ClusterRun, features: dict[str, pd.DataFrame], learning: Learning, protocol: str) -> pd.DataFrame:
    """Out-of-fold predictions, with a line of progress."""
    with SAY.status("training") as status:
        return predictions(
            features,
            run.runs,
            learning,
            protocols=(protocol,),
            truth=truth(run.runs),
            progress=lambda done, of: status.update(f"trained {done} of {of}"),
        )


class Runs(NamedTuple):
    """Control runs, and their counters' features over their own and over all nodes."""

    runs: pd.DataFrame
    own: pd.DataFrame
    all: pd.DataFrame


def once(directory: Path, what: str, settings: Sequence[object], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """The table that ``make`` gives, made once by the same code for the same settings."""

    def compute() -> pd.DataFrame:
        SAY.print(f"computing {what}")
        return make()

    return kept(directory, "studies.variability", (what, *settings), compute)


def runs_once(directory: Path, days: int, seed: int, each: int) -> Runs:
    """Control runs on the cluster ``congested``, simulated once."""
    simulated = cache(lambda: control_runs(CONGESTED, days=days, seed=seed, each=each))
    settings = (CONGESTED, days, seed, each)
    return Runs(
        *(once(directory, f"runs, {part}", settings, lambda part=part: getattr(simulated(), part)) for part in Runs._fields)
    )  # type: ignore[misc]


def swept(cluster: Cluster) -> pd.DataFrame:
    """F1 in blocks of time, by classifier and nodes, on runs of ``cluster``."""
    run = control_runs(cluster, days=SWEEP_DAYS, seed=SEED + 1, each=SWEEP_EACH)
    predicted = judged(run, {"own": run.own, "all": run.all, START: ceiling_features(run)[START]}, Learning(SWEPT), BLOCKED)
    return measured(predicted).query("application == @ALL and measure == 'f1'")


def sweep(directory: Path, cluster: Cluster) -> pd.DataFrame:
    """:func:`swept`, made once."""
    what = f"noise {cluster.sensor_noise:g}, lag {cluster.lag_s}"
    return once(directory, what, (cluster, SWEEP_DAYS, SWEEP_EACH, SEED, SWEPT), lambda: swept(cluster))


def pick(table: pd.DataFrame, **where: str) -> pd.Series:
    """The one row of ``table`` where these columns have these values."""
    rows = table
    for column, value in where.items():
        rows = rows[rows[column] == value]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows where {where}")
    return rows.iloc[0]


def cell(row: pd.Series) -> str:
    """A measure with its interval."""
    return f"{row['value']:.3f} [{row['low']:.2f}, {row['high']:.2f}]"


def main_table(table: pd.DataFrame, protocol: str) -> str:
    """Return all measures of each classifier, own and all nodes, and F1 against the truth."""
    rows = []
    for kind in ("own", "all", START, RUN):
        for name in table.loc[table["protocol"] == protocol, "classifier"].unique():
            where = {"protocol": protocol, "features": kind, "classifier": name, "application": ALL}
            cells = [cell(pick(table, against="label", measure=measure, **where)) for measure in ("f1",)]
            cells += [
                f"{pick(table, against='label', measure=measure, **where)['value']:.3f}"
                for measure in ("precision", "recall", "average_precision")
            ]
            cells.append(f"{pick(table, against='truth', measure='f1', **where)['value']:.3f}")
            rows.append([kind if kind in (START, RUN) else f"{kind} nodes", str(name), *cells])
    headings = ["counters of", "classifier", "F1", "precision", "recall", "average precision", "F1 against the truth"]
    return markdown(headings, rows, keys=2)


def best(table: pd.DataFrame, protocol: str, kinds: tuple[str, ...], against: str = "label") -> pd.Series:
    """The row of highest F1 among features ``kinds``."""
    rows = table[
        (table["protocol"] == protocol)
        & table["features"].isin(kinds)
        & (table["application"] == ALL)
        & (table["measure"] == "f1")
        & (table["against"] == against)
    ]
    return rows.loc[rows["value"].idxmax()]


def ceilings(table: pd.DataFrame) -> str:
    """How much of each ceiling the best learned model reaches."""
    rows = []
    for protocol in table["protocol"].unique():
        for against in ("label", "truth"):
            mine = best(table, protocol, ("own", "all"), against)
            start, run = (best(table, protocol, (kind,), against) for kind in (START, RUN))
            row = [str(protocol), against, f"{mine['classifier']}, {mine['features']} nodes", f"{mine['value']:.3f}"]
            for top in (start, run):
                row += [f"{top['value']:.3f}", f"**{mine['value'] / top['value']:.0%}**"]
            rows.append(row)
    headings = ["protocol", "against", "best model", "F1", "told at start", "share", "told the run", "share"]
    return markdown(headings, rows, keys=3)


def by_application(table: pd.DataFrame) -> str:
    """F1 of the best model and both ceilings for each application left out."""
    mine = best(table, LEFT_OUT, ("own", "all"))
    tops = [best(table, LEFT_OUT, (kind,)) for kind in (START, RUN)]
    lines = []
    for name in sorted(set(table["application"]) - {ALL}):
        rows = [
            pick(
                table,
                protocol=LEFT_OUT,
                features=str(row["features"]),
                classifier=str(row["classifier"]),
                application=name,
                against="label",
                measure="f1",
            )
            for row in (mine, *tops)
        ]
        lines.append([name, f"{rows[0]['varied']} of {rows[0]['runs']}", *(f"{row['value']:.3f}" for row in rows)])
    return markdown(["left out", "runs that varied", "best model", "told at start", "told the run"], lines)


def own_against_all(predicted: pd.DataFrame) -> str:
    """Paired differences in F1, own nodes minus all nodes."""
    lines = []
    for protocol in predicted["protocol"].unique():
        for name in predicted.loc[predicted["protocol"] == protocol, "classifier"].unique():
            rows = predicted[(predicted["protocol"] == protocol) & (predicted["classifier"] == name)]
            f1 = difference(rows[rows["features"] == "own"], rows[rows["features"] == "all"]).set_index("measure").loc["f1"]
            lines.append([str(protocol), str(name), f"{f1['value']:+.3f} [{f1['low']:+.3f}, {f1['high']:+.3f}]"])
    return markdown(["protocol", "classifier", "F1 of own minus all nodes"], lines, keys=2)


def sweep_table(by_value: dict[float, pd.DataFrame], what: str) -> str:
    """F1 as noise or lag grows."""
    rows = []
    for value, table in by_value.items():
        mine, top = best(table, BLOCKED, ("own", "all")), best(table, BLOCKED, (START,))
        name, share = f"{mine['classifier']}, {mine['features']} nodes", f"{mine['value'] / top['value']:.0%}"
        rows.append([f"{value:g}", name, cell(mine), f"{top['value']:.3f}", share])
    return markdown([what, "best model", "F1", "told at start", "share"], rows, keys=2)


def elimination_table(chosen: pd.DataFrame, whole: pd.DataFrame) -> str:
    """Return F1 with the columns that elimination keeps, beside all of them.

    It chooses inside each training part.
    """
    less, more = measured(chosen), measured(whole)
    rows = []
    for kind in ("own", "all"):
        counts = chosen[chosen["features"] == kind].groupby("fold")["columns"].first()
        kept_ = ", ".join(str(number) for number in counts)
        rows.append([f"{kind} nodes", kept_, *(cell(best(table, BLOCKED, (kind,))) for table in (less, more))])
    return markdown(["counters of", "columns kept, by block of time", "F1", "F1 with all 282"], rows)


def compared(directory: Path) -> dict[str, str]:
    """The tables of every classifier in blocks of time, and of one with applications left out."""
    usually = (CONGESTED, DAYS, SEED, EACH)
    run = runs_once(directory, DAYS, SEED, EACH)
    every = {"own": run.own, "all": run.all, **ceiling_features(run)}

    def of(protocol: str, names: tuple[str, ...]) -> pd.DataFrame:
        return once(directory, f"said, {protocol}", (*usually, names), lambda: judged(run, every, Learning(names), protocol))

    predicted = pd.concat([of(BLOCKED, CLASSIFIERS), of(LEFT_OUT, LEFT_OUT_BY)])
    table = measured(predicted)
    return {
        "ceilings": ceilings(table),
        "left-out": main_table(table, LEFT_OUT),
        "blocked": main_table(table, BLOCKED),
        "applications": by_application(table),
        "own-all": own_against_all(predicted),
    }


def swept_tables(directory: Path) -> dict[str, str]:
    """The tables of noise, lag and elimination."""
    noise = {value: sweep(directory, CONGESTED.but(sensor_noise=value, probe_noise=value / 2)) for value in NOISES}
    lag = {float(value): sweep(directory, CONGESTED.but(lag_s=value)) for value in LAGS}
    briefly = (CONGESTED, SWEEP_DAYS, SEED + 1, SWEEP_EACH)
    small = runs_once(directory, *briefly[1:])
    sets = {"own": small.own, "all": small.all}

    def of(elimination: bool) -> pd.DataFrame:
        learning, settings = Learning((ELIMINATED,), elimination=elimination), (*briefly, ELIMINATED, elimination)
        return once(directory, "elimination", settings, lambda: judged(small, sets, learning, BLOCKED))

    return {
        "noise": sweep_table(noise, "sensor noise"),
        "lag": sweep_table(lag, "lag, s"),
        "elimination": elimination_table(of(True), of(False)),
    }


def main() -> None:
    """Compute what is not kept yet, print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", type=Path, default=Path(".queuecast/benchmarks/variability"))
    parser.add_argument("--sweeps", action="store_true", help="also worse sensors and elimination of columns: as long again")
    parser.add_argument("--write", action="store_true", help="write the tables as data")
    asked = parser.parse_args()
    parts = compared(asked.keep) | (swept_tables(asked.keep) if asked.sweeps else {})
    if asked.write:
        write_data(PAGE, parts)
    else:
        for name, text in parts.items():
            print(f"## {name}\n\n{text}\n")


if __name__ == "__main__":
    main()
