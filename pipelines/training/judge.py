"""Judge candidates for ``runtime-<trace>`` against the champion, on answers as served.

The rule by which the judged challenger is promoted is in ``models.registry.promotion``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from features.clock import DAY_S
from models.packed.methods import PREDICTED
from models.registry.as_served import CHAMPION, STRAGGLERS, JudgedWindow, clusters, judged_window, quantile_columns
from models.registry.candidates import Accounting
from models.registry.promotion import EPOCH_DAYS, TIE, Duel, duel, of_quantiles, served_evidence
from models.runtime.evaluation import accuracy
from models.runtime.protocol import TablePredictor
from pipelines.training.work import COMPARED_DAYS


def judge(
    served: pd.DataFrame,
    window: pd.DataFrame,
    names: Sequence[str],
    trained: tuple[str, int],
    until_s: int,
) -> tuple[str, Duel, tuple[str, ...]]:
    """Judge the candidates ``names`` tonight, at ``until_s``.

    Returns the challenger's name, its duel with the champion, and further reasons against it.

    ``served`` has the jobs of :func:`models.registry.as_served.predict_served` and ``window`` those of them that ended
    in the last days. In both, only jobs count that the champion of ``trained`` (version and instant of training)
    answered. The challenger is the most accurate candidate in the window, or the simplest within ``TIE`` of it. Only
    candidates with enough evidence count, if there are any.
    """
    version, trained_until_s = trained
    own, judged = (rows[rows["champion_version"] == version] for rows in (served, window))
    first_s = int(served["at_s"].min()) if len(served) else until_s
    known_from_s = trained_until_s if first_s <= trained_until_s else first_s + STRAGGLERS * DAY_S
    user, end = pd.factorize(own["user"])[0], own["end_s"].to_numpy(np.int64)
    scores = {name: _accuracies(own, name) for name in (CHAMPION, *names)}
    evidence = {
        name: served_evidence(scores[name] - scores[CHAMPION], user, end, trained_until_s, until_s, len(names), known_from_s)
        for name in names
    }
    challenger = best(judged if len(judged) else window, [name for name in names if evidence[name].enough] or names)
    runtime, cluster = judged["runtime_s"].to_numpy(np.float64), clusters(judged)
    fought = duel(
        judged[challenger].to_numpy(), judged[CHAMPION].to_numpy(), runtime, cluster, evidence[challenger], candidates=len(names)
    )
    vetoes = of_quantiles(_quantiles(judged, challenger), _quantiles(judged, CHAMPION), runtime, cluster)
    return challenger, fought, tuple(vetoes)


def judging_instants(window: JudgedWindow, trained_until_s: int | None) -> list[int]:
    """Return instants that stand for the nights before a retraining, ascending, a day apart.

    They cover the judged ``window`` and, with a champion, at most ``EPOCH_DAYS`` of evidence before it, since the
    training. They are counted from the training, so that retrainings on several days use the same nights.
    """
    if trained_until_s is None:
        return window.nights
    first_s = min(window.first_s, max(window.first_s - EPOCH_DAYS * DAY_S, trained_until_s))
    first_s -= (first_s - trained_until_s) % DAY_S
    return list(range(first_s, max(window.last_s, first_s + 1), DAY_S))


def instants_of_nights(submit_s: np.ndarray, end_s: np.ndarray, nights: Sequence[int], until_s: int) -> list[int]:
    """Return the instants of ``nights``, and of days before the first one, ascending.

    Those days stand for nights, and cover the compared days and the judged window. Without nights, they are before
    ``until_s``.
    """
    first_s = nights[0] if nights else until_s
    ended = end_s <= first_s
    if not ended.any():  # the accounting of that night is gone
        return sorted({first_s, *nights})
    window = judged_window(submit_s[ended], end_s[ended])
    before = [window.last_s - DAY_S * number for number in range(1, COMPARED_DAYS + 1)]
    return sorted({*window.nights, *before, *nights})


def best(judged: pd.DataFrame, names: Sequence[str]) -> str:
    """Return the name with the highest mean accuracy, or the simplest within ``TIE`` of it."""
    scores = {name: mean_accuracy(judged, name) for name in names}
    highest = max(scores.values())
    return next((name for name in names if scores[name] >= highest - TIE), names[0])


def mean_accuracy(rows: pd.DataFrame, name: str) -> float:
    """Return the mean accuracy of a column of ``served``; NaN without jobs."""
    return float(_accuracies(rows, name).mean()) if len(rows) else float("nan")


def rows_served(records: Accounting, rows: np.ndarray, served: pd.DataFrame) -> np.ndarray:
    """Return positions in ``served`` of the jobs ``rows``; raise ValueError if one is missing."""
    place = job_keys(served).get_indexer(job_keys(records.jobs.iloc[rows].assign(end_s=records.end_s[rows])))
    if (place < 0).any():
        raise ValueError(f"{int((place < 0).sum())} of {len(rows)} jobs were not answered")
    return place


def answers_table(name: str, answers: pd.DataFrame) -> TablePredictor:
    """Return answers, one row per job to simulate, as a predictor called ``name``.

    ``answers`` has the column ``PREDICTED`` and, with quantiles, one column per level in (0, 1), all in seconds.
    """
    answers = answers.reset_index(drop=True)
    seconds, quantiles = answers[PREDICTED].to_numpy(np.float64), answers.drop(columns=PREDICTED)
    return TablePredictor(name, lambda _: seconds, quantiles=None if quantiles.empty else lambda _: quantiles)


def job_keys(jobs: pd.DataFrame) -> pd.MultiIndex:
    """Return unique keys of jobs: number, submission, end, user, and a counter of equal ones."""
    names = ["job_id", "submit_s", "end_s", "user"]
    keys = jobs[names].assign(user=jobs["user"].astype("str").fillna(""))
    return pd.MultiIndex.from_frame(keys.assign(again=keys.groupby(names).cumcount()))


def _accuracies(rows: pd.DataFrame, name: str) -> np.ndarray:
    return accuracy(rows[name].to_numpy(), rows["runtime_s"].to_numpy(np.float64))


def _quantiles(rows: pd.DataFrame, name: str) -> Mapping[float, np.ndarray]:
    return {level: rows[column].to_numpy() for level, column in quantile_columns(name).items()}
