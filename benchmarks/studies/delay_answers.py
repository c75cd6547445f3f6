"""Ask the model of delays, ``ordinal``, and those beside it about simulated runs they never saw.

Folds are those of
:mod:`models.variability.evaluation`. So that tens of thousands of runs can be trained on, a block's cutoff is not chosen in folds of
its training part: it is the best one on the predictions of the other blocks (of other applications, where one is left out).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from benchmarks.papers.nichols.experiments import machine
from benchmarks.studies.variability import RUN, START, ceiling_features
from features.clock import DAY_S
from features.monitoring.labels import BINARY, DELAYS, baselines, labels, z_scores
from features.monitoring.samplers import DELAY_FEATURES, FEATURES, MORE_FEATURES, NEWEST_FEATURES, SITUATION_FEATURES, TYPE_FEATURES
from models.variability.evaluation import BLOCKED, LEFT_OUT, Fold, folds
from models.variability.model import VariabilityModel, best_cutoff, fit
from models.variability.time_blocks import apart, times_of
from sim.cluster.experiments import VARIES, control_runs
from sim.cluster.simulate import ClusterRun

DAYS, EACH, SEED = 30, 4000, 31
FEWER = 8
"""Every eighth run is learned from where 3,500 are said."""
LASTING, LASTING_EACH = 3, 1000
"""How many times as long disturbances last and pause on the other cluster, and its runs of each application."""
UNTOLD = (*TYPE_FEATURES, *SITUATION_FEATURES)
"""Columns that are no measurements: sensors cannot be wrong about them."""
FEW, LEARNED = "few columns", "ordinal"
OVER = [f"over {end:g}" for end in DELAYS]
USUALLY = [f"usually over {end:g}" for end in DELAYS]
SAY = Console(stderr=True)


class Asked(NamedTuple):
    """A model that is judged: by what columns, which classifier, and how many of the runs train."""

    name: str
    columns: tuple[str, ...]
    classifier: str = LEARNED
    every: int = 1
    shuffled: bool = False


def above(probabilities: np.ndarray) -> np.ndarray:
    """Return the probability to exceed each threshold, float64 [rows, classes - 1].

    ``probabilities`` [rows, classes] are those of the classes that the thresholds divide.
    """
    return np.cumsum(probabilities[:, :0:-1], axis=1)[:, ::-1]


def without(*left_out: str) -> tuple[str, ...]:
    """Return the columns of ``ordinal`` but those ``left_out``."""
    return tuple(name for name in DELAY_FEATURES if name not in left_out)


TOLD_START, TOLD_RUN = ("start_network", "start_io", *TYPE_FEATURES), ("mean_network", "mean_io", *TYPE_FEATURES)
COMPARED = (
    Asked("282 columns, 3,500 runs", FEATURES, "lightgbm", FEWER),
    Asked("282 columns", FEATURES, "lightgbm"),
    Asked(FEW, DELAY_FEATURES, "lightgbm"),
    Asked("282 columns", FEATURES),
    Asked("all 381 columns", (*FEATURES, *MORE_FEATURES)),
    Asked(FEW, DELAY_FEATURES),
    Asked("few columns, 3,500 runs", DELAY_FEATURES, every=FEWER),
    Asked("few without newest", without(*NEWEST_FEATURES)),
    Asked("few without situation", without(*SITUATION_FEATURES)),
    Asked("few without both", without(*NEWEST_FEATURES, *SITUATION_FEATURES)),
    Asked(START, TOLD_START),
    Asked(RUN, TOLD_RUN),
    Asked("few columns, shuffled labels", DELAY_FEATURES, shuffled=True),
)
ELSEWHERE = tuple(
    asked
    for asked in COMPARED
    if asked.name in (FEW, START, RUN, "few without situation") or (asked.classifier, asked.name) == ("lightgbm", "282 columns")
)
"""Those that judge applications left out."""


class Seen(NamedTuple):
    """Control runs, and all that models may be told of them."""

    runs: pd.DataFrame
    features: pd.DataFrame


def seen(run: ClusterRun) -> Seen:
    """Join what models may be told, the ceilings' truth included."""
    truth = pd.concat(list(ceiling_features(run).values()), axis=1).drop(columns=list(TYPE_FEATURES))
    return Seen(run.runs, pd.concat([run.all, run.situation, truth], axis=1))


@cache
def simulated(name: str, seed: int, each: int) -> Seen:
    """Simulate control runs on a cluster."""
    SAY.print(f"simulating {name}")
    return seen(control_runs(machine(name), days=DAYS, seed=seed, each=each))


def trained(asked: Asked, features: pd.DataFrame, z: np.ndarray) -> VariabilityModel:
    """Train on these runs; of balanced classes the two, for ``ordinal`` all of delays."""
    random = np.random.default_rng(0)
    rows = np.sort(random.permutation(len(z))[: len(z) // asked.every])
    of = random.permutation(z) if asked.shuffled else z
    ends = DELAYS if asked.classifier == LEARNED else BINARY
    label, variation = labels(of[rows], ends), ends.index(VARIES) + 1
    taken = features.iloc[rows]
    return fit(
        asked.classifier, taken, label, seed=0, columns=asked.columns, classes=len(ends) + 1, variation=variation, z=of[rows]
    )


def answers(model: VariabilityModel, features: pd.DataFrame, name: str) -> pd.DataFrame:
    """What a model says of runs: the probability to vary, over each threshold, and the mean z to expect."""
    probabilities = model.probabilities(features)
    table = pd.DataFrame({"features": name, "classifier": model.classifier, "probability": model.variation_of(probabilities)})
    if model.classifier == LEARNED:
        table[OVER] = above(probabilities)
        table["longer"] = model.longer(probabilities)
    return table


def shaken(features: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Give what the model is told where sensors are worse than those it learned from."""
    random = np.random.default_rng(1)
    columns = [name for name in DELAY_FEATURES if name not in UNTOLD]
    table, shape = features[list(DELAY_FEATURES)], (len(features), len(columns))
    for what, factors in (
        ("each value off by 10 %", np.exp(0.1 * random.standard_normal(shape))),
        ("each counter 10 % too high", np.full(shape, 1.1)),
        ("20 % of values missing", np.where(random.random(shape) < 0.2, np.nan, 1.0)),
    ):
        yield what, table.assign(**dict(zip(columns, (table[columns].to_numpy() * factors).T, strict=True)))


def came(runs: pd.DataFrame, rows: np.ndarray, usual: pd.DataFrame) -> pd.DataFrame:
    """Return what became of runs."""
    table = runs.iloc[rows].reset_index(drop=True)
    application = table["application"].astype(str)
    z = z_scores(application, table["runtime_s"], usual)
    sigma_s = usual["sigma_s"].reindex(application).to_numpy()
    return pd.DataFrame(
        {"row": rows, "application": application, "start_s": table["start_s"], "z": z, "sigma_s": sigma_s, "varied": z > VARIES}
    ).assign(label=lambda outcomes: outcomes["varied"].astype(int))


def constants(runs: pd.DataFrame, fold: Fold, z: np.ndarray) -> np.ndarray:
    """Return base rates of the training part, float64 [judged runs, thresholds].

    They are by application, of all others where it is left out.
    """
    over = pd.DataFrame(z[:, None] > np.asarray(DELAYS), columns=USUALLY)
    if fold.protocol == LEFT_OUT:
        return np.tile(over.mean().to_numpy(), (len(fold.test), 1))
    names = runs["application"].astype(str).to_numpy()
    return over.groupby(names[fold.train]).mean().loc[names[fold.test]].to_numpy()


def judged(of: Seen, protocol: str, compared: tuple[Asked, ...]) -> pd.DataFrame:
    """Return what every model says of the runs it never saw, and what came: a row for each of both."""
    overall = baselines(of.runs["application"], of.runs["runtime_s"])
    work = folds(of.runs, protocol)[0]
    tasks = [(fold, asked) for fold in work for asked in compared]

    def one(task: tuple[Fold, Asked]) -> pd.DataFrame:
        fold, asked = task
        z = came(of.runs, fold.train, fold.usual)["z"].to_numpy()
        model = trained(asked, of.features.iloc[fold.train], z)
        test = of.features.iloc[fold.test]
        parts = [answers(model, test, asked.name)]
        if asked == Asked(FEW, DELAY_FEATURES) and protocol == BLOCKED:
            parts += [answers(model, table, what) for what, table in shaken(test)]
        is_ = came(of.runs, fold.test, overall if protocol == LEFT_OUT else fold.usual).assign(protocol=protocol, fold=fold.name)
        is_[USUALLY] = constants(of.runs, fold, z)
        return pd.concat([pd.concat([is_, part], axis=1) for part in parts])

    with SAY.status("training") as status, ThreadPoolExecutor(2) as pool:
        tables = []
        for done, table in enumerate(pool.map(one, tasks)):
            tables.append(table)
            status.update(f"trained {done + 1} of {len(tasks)}")
    return with_cutoffs(pd.concat(tables, ignore_index=True))


def with_cutoffs(predicted: pd.DataFrame) -> pd.DataFrame:
    """Add whether each run is predicted to vary, by the best cutoff on other folds' predictions.

    Other folds are of other stretches of time and, where one is left out, of other applications.
    """
    part = predicted["fold"].str.split(" ")
    stretch, one = part.str[-1].to_numpy(), part.str[0].to_numpy()
    varies = np.zeros(len(predicted), bool)
    probability, varied = predicted["probability"].to_numpy(), predicted["varied"].to_numpy()
    for _, rows in predicted.groupby(["protocol", "features", "classifier"]).indices.items():
        for fold in predicted["fold"].iloc[rows].unique():
            inside = rows[predicted["fold"].to_numpy()[rows] == fold]
            others = rows[
                (stretch[rows] != stretch[inside[0]]) & ((one[rows] != one[inside[0]]) | (part.str.len().iloc[inside[0]] == 1))
            ]
            varies[inside] = probability[inside] >= best_cutoff(probability[others], varied[others])
    return predicted.assign(varies=varies, likeliest=(probability >= 0.5).astype(int))


def later(of: Seen) -> pd.DataFrame:
    """Return what a model of the first half of the days says of the second."""
    border = of.runs["start_s"].min() + DAYS * DAY_S / 2
    test = np.flatnonzero(of.runs["start_s"] >= border)
    train = apart(times_of(of.runs), np.flatnonzero(of.runs["start_s"] < border), test)
    return once_learned(of, train, of, test, "first half of the days")


def once_learned(of: Seen, train: np.ndarray, on: Seen, test: np.ndarray, name: str) -> pd.DataFrame:
    """Return what one model of the few columns says of other runs, of z by its own baselines."""
    usual = baselines(of.runs["application"].iloc[train], of.runs["runtime_s"].iloc[train])
    z = came(of.runs, train, usual)["z"].to_numpy()
    rows = came(on.runs, test, usual).assign(protocol="once", fold="0", varies=False, likeliest=0)
    rows[USUALLY] = constants(
        pd.concat([of.runs.iloc[train], on.runs.iloc[test]]),
        Fold("once", "0", np.arange(len(train)), np.arange(len(test)) + len(train), z, z, usual),
        z,
    )
    model = trained(Asked(FEW, DELAY_FEATURES), of.features.iloc[train], z)
    return pd.concat([rows, answers(model, on.features.iloc[test], name)], axis=1)


def lasting(of: Seen) -> pd.DataFrame:
    """Return what models say of a cluster whose disturbances last and pause longer: another's, and its own."""
    on = simulated(f"congested x{LASTING}", SEED + 1, LASTING_EACH)
    random = np.random.default_rng(2)
    as_many = np.sort(random.permutation(len(of.runs))[: len(on.runs)])
    other = once_learned(of, as_many, on, np.arange(len(on.runs)), "learned where they are short")
    own = judged(on, BLOCKED, (Asked(FEW, DELAY_FEATURES),)).query("features == @FEW").assign(features="learned there")
    return pd.concat([other, own], ignore_index=True)
