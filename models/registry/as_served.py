"""Predictions as served: by the model and snapshot of the night before the submission.

With histories up to the second of each submission a model looks better than in service, where the user's jobs that
ended since the night are unknown (4 to 5 points of accuracy on KTH-SP2 and SDSC-SP2). Here every job is answered from
the accounting of the last night before its submission: the jobs that had ended by then. Accounting lists only ended
jobs, so there are no running ones.

The jobs that judge a model are the last to end, counted back from the last submission (:func:`judged_window`). A
champion's accuracy and under-prediction are compared with those at its promotion (:func:`performance_drift`). Both
means come with a standard error that treats jobs of one user on one day as one cluster
(:func:`models.registry.promotion.clustered_mean`). The difference of two windows is judged by Student's t at
``FALSE_ALARMS``, one-sided: only a worse value is reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from features.clock import DAY_S
from models.packed.methods import LEVELS, METHODS, PREDICTED, Method
from models.registry.candidates import TRAINERS, Accounting, fit, refresh, refresh_each
from models.registry.promotion import FEWEST_CLUSTERS, FEWEST_JOBS, JUDGED_DAYS, Mean, clustered_mean, user_days
from models.runtime.evaluation import accuracy

STRAGGLERS = 7
"""Max days between a judging job's submission and the judged window; the few jobs that waited and ran longer do not
judge."""


@dataclass(frozen=True)
class JudgedWindow:
    """The judging jobs ended after ``since_s`` and were submitted from ``first_s`` on.

    Each is predicted as of the night before it. ``last_s`` is the last submission; all are seconds from the trace's
    origin.
    """

    since_s: int
    first_s: int
    last_s: int

    @property
    def nights(self) -> list[int]:
        """Return instants a day apart, from at or before ``first_s`` to a day before ``last_s``.

        They are counted back from the last submission, in ascending order.
        """
        days = max(-(-(self.last_s - self.first_s) // DAY_S), 1)
        return [self.last_s - DAY_S * number for number in range(days, 0, -1)]

    def jobs(self, end_s: np.ndarray) -> np.ndarray:
        """Return the mask of the jobs that end in the window, bool [jobs]."""
        return end_s > self.since_s


def judged_window(submit_s: np.ndarray, end_s: np.ndarray) -> JudgedWindow:
    """Return the judged window of jobs submitted at ``submit_s`` and ended at ``end_s``.

    Both int64 [jobs]. It begins ``JUDGED_DAYS`` days before the last submission, or earlier if fewer than
    ``FEWEST_JOBS`` jobs have ended since. It is not counted from the last end, because one long job after the last
    submission could leave no others in it.
    """
    last, fewest = int(submit_s.max()), min(FEWEST_JOBS, len(submit_s))
    since = min(last - JUDGED_DAYS * DAY_S, int(np.partition(end_s, -fewest)[-fewest]) - 1)
    submitted = submit_s[end_s > since]
    first = min(since - STRAGGLERS * DAY_S, int(np.partition(submitted, -fewest)[-fewest]))
    return JudgedWindow(since, first, last)


REMEMBERED_NIGHTS = 10
"""Nights whose models are kept. Few jobs take longer; for those a model is trained again."""
Models = dict[tuple[str, int], Method]
"""Trained methods by name and instant of their night: training is most of a night's cost, and the next nights need them
again."""
ServedBy = Callable[[int, np.ndarray], Iterable[tuple[np.ndarray, str, Method]]]
"""Takes a night and jobs ``rows`` submitted after it; returns the models that answered, as (mask [rows], version,
method)."""


CHAMPION = "champion"
"""The column of the champion's answers."""


def quantile_columns(name: str) -> dict[float, str]:
    """Return the columns of ``served`` with the quantiles of the method ``name``, by level.

    ``name`` may be the champion. A method without quantiles has none.
    """
    outputs = LEVELS if name == CHAMPION else METHODS[name].outputs
    return {level: _column(name, output) for output, level in LEVELS.items() if output in outputs}


def answer_columns(names: Sequence[str] = tuple(TRAINERS)) -> list[str]:
    """Return the columns of answers that :func:`predict_served` makes for ``names``."""
    of_champion = [CHAMPION, *quantile_columns(CHAMPION).values()]
    of_names: list[str] = []
    for name in names:
        of_names += [name, *quantile_columns(name).values()]
    return [*of_names, *of_champion]


def by_column(name: str, answers: Mapping[str, np.ndarray] | pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the answers of a method by their columns of ``served``."""
    columns = {PREDICTED: name, **{output: _column(name, output) for output in LEVELS}}
    return {column: np.asarray(answers[output]) for output, column in columns.items() if output in answers}


def _column(name: str, output: str) -> str:
    return name + output.removeprefix("predicted")


def serve(
    method: Method,
    accounting: Accounting,
    rows: np.ndarray,
    instants: Sequence[int],
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Answer the jobs ``rows`` with a trained ``method``, each from the night before it.

    One row per job, in the same order. ``instants`` are the nights, ascending, the first no later than any submission.
    Columns are the method's outputs, seconds. One pass refreshes the method through all nights.
    """
    submit = accounting.jobs["submit_s"].to_numpy(np.int64)[rows]
    night = np.searchsorted(np.asarray(instants, np.int64), submit, side="right") - 1
    table = pd.DataFrame(np.nan, index=np.arange(len(rows)), columns=list(method.outputs))
    features = accounting.served(rows, np.asarray(instants, np.int64)[night])
    numbers = np.unique(night).tolist()
    asked_nights = [int(instants[number]) for number in numbers]
    for done, (number, then) in enumerate(zip(numbers, refresh_each(method, accounting, asked_nights), strict=True)):
        of_night = np.flatnonzero(night == number)
        answers = then.predict(features.iloc[of_night])
        for output, seconds in answers.items():
            table.loc[of_night, output] = seconds
        if progress is not None:
            progress(done + 1, len(numbers))
    return table


def no_champion(at_s: int, rows: np.ndarray) -> Iterable[tuple[np.ndarray, str, Method]]:
    """Return no answers, for times without a champion."""
    return ()


def predict_served(
    accounting: Accounting,
    rows: np.ndarray,
    instants: Sequence[int],
    *,
    names: Sequence[str] = tuple(TRAINERS),
    models: Models | None = None,
    champion: ServedBy = no_champion,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return the answers that were or would have been served to the jobs ``rows``.

    One row per job, in the order of ``rows``; all submitted at or after ``instants[0]``. Columns:
    ``job_id submit_s end_s runtime_s user`` of the job, ``at_s`` (the night's instant), ``requested``, and for each of
    ``names`` the seconds predicted by that night's model from its snapshot; ``champion`` (NaN without one) and
    ``champion_version``. Quantiles are in ``<name>_80_s`` and the like (:func:`quantile_columns`), NaN for a champion
    without. No model has seen the job it predicts, nor anything that ended after its night. ``instants`` ascend.
    ``models`` holds models trained before; those of the last nights trained now are added to it.
    """
    models = {} if models is None else models
    submit = accounting.jobs["submit_s"].to_numpy(np.int64)[rows]
    night = np.searchsorted(np.asarray(instants, np.int64), submit, side="right") - 1
    table = pd.DataFrame(
        {
            "job_id": accounting.jobs["job_id"].to_numpy()[rows],
            "submit_s": submit,
            "end_s": accounting.end_s[rows],
            "runtime_s": accounting.jobs["runtime_s"].to_numpy(np.int64)[rows],
            "user": accounting.jobs["user"].astype("str").fillna("").to_numpy()[rows],
            "at_s": np.asarray(instants, np.int64)[night],
            "requested": accounting.jobs["requested_s"].to_numpy(np.float64)[rows],
        }
    )
    for column in answer_columns(names):
        table[column] = np.nan
    features = accounting.served(rows, table["at_s"].to_numpy())
    table["champion_version"] = pd.array([""] * len(rows), dtype="str")

    def one(number: int) -> tuple[np.ndarray, dict[str, np.ndarray], list[tuple[np.ndarray, str, dict[str, np.ndarray]]]]:
        at, of_night = int(instants[number]), np.flatnonzero(night == number)
        then = features.iloc[of_night]
        answers: dict[str, np.ndarray] = {}
        for name in names:
            model = models.get((name, at)) or fit(name, accounting, at, seed)
            if number >= len(instants) - REMEMBERED_NIGHTS:
                models[name, at] = model
            answers |= by_column(name, model.predict(then))
        groups = [
            (of_night[mask], version, by_column(CHAMPION, refresh(method, accounting, at).predict(then[mask])))
            for mask, version, method in champion(at, rows[of_night])
            if mask.any()
        ]
        return of_night, answers, groups

    for name, at in list(models):
        if at not in instants[-REMEMBERED_NIGHTS:]:
            del models[name, at]
    numbers = np.unique(night).tolist()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # nights are independent
        for done, (of_night, answers, groups) in enumerate(pool.map(one, numbers)):
            for column, seconds in answers.items():
                table.loc[of_night, column] = seconds
            for where, version, theirs in groups:
                for column, answered in theirs.items():
                    table.loc[where, column] = answered
                table.loc[where, "champion_version"] = version
            if progress is not None:
                progress(done + 1, len(numbers))
    return table


FALSE_ALARMS = 0.01
"""Chance of an alarm in a window where nothing has changed, shared by the two measures."""
MEASURES = {"accuracy": -1.0, "underprediction_rate": 1.0}
"""Measures by name, with the sign of worse."""


def clusters(rows: pd.DataFrame) -> np.ndarray:
    """Return a number for each user and day of submission in ``served``, int64 [jobs]."""
    return user_days(pd.factorize(rows["user"])[0], rows["submit_s"].to_numpy(np.int64))


def served_means(rows: pd.DataFrame, name: str) -> dict[str, Mean]:
    """Return :data:`MEASURES` of a column of ``served``, with clustered errors."""
    seconds, runtime, cluster = rows[name].to_numpy(), rows["runtime_s"].to_numpy(np.float64), clusters(rows)
    return {
        "accuracy": clustered_mean(accuracy(seconds, runtime), cluster),
        "underprediction_rate": clustered_mean((seconds < runtime).astype(np.float64), cluster),
    }


def record(rows: pd.DataFrame, name: str) -> dict[str, str]:
    """Return :func:`served_means` as tags of a version; no tags without jobs."""
    means = served_means(rows, name) if len(rows) else {}
    return {f"recorded_{measure}": f"{mean.value!r} {mean.error!r} {mean.clusters}" for measure, mean in means.items()}


def recorded_means(tags: Mapping[str, str]) -> dict[str, Mean]:
    """Return the means that a version recorded when it was judged."""
    means = {}
    for measure in MEASURES:
        if recorded := re.fullmatch(r"(\S+) (\S+) (\d+)", tags.get(f"recorded_{measure}", "")):
            means[measure] = Mean(float(recorded[1]), float(recorded[2]), int(recorded[3]))
    return means


def performance_drift(now: Mapping[str, Mean], then: Mapping[str, Mean], jobs: int) -> pd.DataFrame:
    """Return one row for each of :data:`MEASURES`.

    Columns ``measure then now limit jobs drifted note``; ``limit`` is the worst value that chance allows, NaN without
    verdict.
    """
    rows = []
    for name, worse in MEASURES.items():
        if name not in then:
            rows.append(_row(name, np.nan, now[name].value, jobs, "no verdict: nothing was recorded at promotion"))
            continue
        row = _row(name, then[name].value, now[name].value, jobs, "")
        fewest = min(now[name].clusters, then[name].clusters)
        if jobs < FEWEST_JOBS or fewest < FEWEST_CLUSTERS:
            rows.append(row | {"note": f"no verdict: {jobs} jobs since it was trained are too few"})
            continue
        t = -float(stdtrit(fewest - 1, FALSE_ALARMS / len(MEASURES)))
        limit = then[name].value + worse * t * float(np.hypot(now[name].error, then[name].error))
        rows.append(row | {"limit": limit, "drifted": bool(worse * (now[name].value - limit) > 0)})
    return pd.DataFrame(rows)


def _row(name: str, then: float, now: float, jobs: int, note: str) -> dict[str, object]:
    return {"measure": name, "then": then, "now": now, "limit": np.nan, "jobs": jobs, "drifted": False, "note": note}
