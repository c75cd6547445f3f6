"""Models of when jobs start: trained on questions, calibrated on known outcomes.

They are distributions of waits (:mod:`models.packed.start_distribution`), trained on the states of a queue. If a
question's job still waits at training, it is used for the bins that it has outlasted: it is censored, not dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import lightgbm
import numpy as np

from features.clock import DAY_S
from models.packed.queue_state import FEATURES, PLANS
from models.packed.start_distribution import AT_ONCE, EDGES_S, PINNED, Calibration, Hazard, at_waits, given_waiting, pooled, rows_of
from models.packed.start_predictor import BOTH, HAZARD, POOLED, RECENT, SPARE, STATE, StartModel
from models.starts.bulk import chances
from models.starts.evaluation import ranked_scores
from models.trees import plain_trees


@dataclass(frozen=True)
class Growth:
    """How trees are grown; the rows are those of jobs and bins.

    ``members`` forests with seeds of their own are averaged in log odds. Of more than ``most_rows`` rows so many are
    drawn.
    """

    trees: int = 250
    leaves: int = 31
    learning_rate: float = 0.03
    min_rows_in_leaf: int = 50
    feature_share: float = 0.6
    row_share: float = 0.7
    members: int = 1
    most_rows: int = 1 << 60


GROWTH = Growth()
"""On the first half of KTH-SP2 under EASY, 100 trees at 0.05 lose 0.5 % of pinball."""
LEARNED = 6_000
"""Max most recent questions to learn from. On the first half of KTH-SP2 12,000 lose 1 % less as recorded, 1 % more
under EASY."""
ENOUGH = 100
"""Min answers for a calibration."""
_PRIOR, _PRIOR_ODDS = 25.0, 50.0
"""Weights, in jobs, of uncalibrated chances beside observed outcomes: of chances by rank, and of log odds.

On first halves of KTH-SP2, LANL-CM5 and ALCF-Theta as recorded, 10 to 50 lose about the same."""
_POINTS = np.concatenate(([0.0], 1.0 / (1.0 + np.exp(-np.linspace(-8.0, 8.0, 81))), [1.0]))
"""Points that are dense where chances near 0 and 1 came true far more often than told."""


def grow(
    states: np.ndarray,
    plans: np.ndarray,
    scenarios: np.ndarray | None,
    waited_s: np.ndarray,
    waits: np.ndarray,
    *,
    seed: int = 0,
    growth: Growth = GROWTH,
) -> Hazard:
    """Return trees trained on how long jobs waited.

    ``waited_s`` float64 [questions] is how long a job waited after the question, or has waited so far if it still
    ``waits`` (bool [questions]). The others are as in :func:`models.packed.start_distribution.rows_of`. Raises
    ValueError without a start.
    """
    begun = np.searchsorted(EDGES_S[:-1], waited_s, "left")  # the bin of the start, or the first that the wait has not outlasted
    rows = np.where(waits, np.searchsorted(EDGES_S[:-1], waited_s, "right"), np.minimum(begun + 1, len(EDGES_S) - 1))
    job = np.repeat(np.arange(len(rows)), rows)
    if not len(job) or waits.all():
        raise ValueError("no job of those asked about has started")
    bins = np.arange(len(job)) - np.repeat(np.cumsum(rows) - rows, rows)
    if len(job) > growth.most_rows:
        drawn = np.sort(np.random.default_rng(seed).choice(len(job), growth.most_rows, replace=False))
        job, bins = job[drawn], bins[drawn]
    starts = (bins == begun[job]) & ~waits[job]
    settings = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1, "max_bin": 127}
    matrix = rows_of(states, plans, scenarios, job, bins)
    rows_read = lightgbm.Dataset(matrix, starts.astype(np.float64), params=settings)
    plain = []
    for member in range(growth.members):
        plain += plain_trees(lightgbm.train(_parameters(growth, seed + member), rows_read, growth.trees))
    most = max(len(values) for _, _, values in plain)
    nodes, thresholds, values = np.full((len(plain), most, 3), -1), np.zeros((len(plain), most)), np.zeros((len(plain), most))
    for number, (links, limits, leaves) in enumerate(plain):
        nodes[number, : len(links)], thresholds[number, : len(limits)], values[number, : len(leaves)] = links, limits, leaves
    return Hazard(nodes, thresholds, values / growth.members)


def _parameters(growth: Growth, seed: int) -> dict[str, object]:
    return {
        "objective": "binary",
        "num_leaves": growth.leaves,
        "learning_rate": growth.learning_rate,
        "min_data_in_leaf": growth.min_rows_in_leaf,
        "feature_fraction": growth.feature_share,
        "bagging_fraction": growth.row_share,
        "bagging_freq": 1,
        "num_threads": 1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def calibrate(chances: np.ndarray, waited_s: np.ndarray, waits: np.ndarray, age_s: np.ndarray) -> Calibration:
    """Return the calibration of chances by their outcomes, with no change as a prior.

    ``chances`` float64 [questions, edges]; ``waited_s`` and ``waits`` as in :func:`grow`; ``age_s`` float64 [questions]
    is the age of the question. A pinned edge uses only older questions, whose outcome is known. Of jobs that waited,
    the frequencies are the Kaplan-Meier estimate of the chance at which a job started. All days count the same: answers
    of one day err together.
    """
    shift, slope = np.array([_odds(chances[:, edge], waited_s, age_s, EDGES_S[edge]) for edge in PINNED]).T
    rest = waited_s > EDGES_S[AT_ONCE]
    if not rest.any():
        return Calibration(shift, slope, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    at = at_waits(given_waiting(chances[rest]), waited_s[rest])
    return Calibration(shift, slope, _POINTS, _came_true(at, ~waits[rest], _equal_weights(age_s[rest] // DAY_S), _PRIOR))


def spread(chances: np.ndarray, waited_s: np.ndarray, waits: np.ndarray, moment: np.ndarray) -> Calibration:
    """Return the calibration of how wide chances are; medians stay.

    Answers of one ``moment`` (int64 [questions]) err together, to a side that is not foreseen: recent errors to one
    side widen both sides. So each started job also counts with its chance mirrored, and all moments count the same.
    Other arguments are as in :func:`calibrate`.
    """
    at = at_waits(given_waiting(chances), waited_s)
    weight = _equal_weights(moment)
    at, started = np.concatenate((at, 1.0 - at[~waits])), np.concatenate((~waits, ~waits[~waits]))
    came = _came_true(at, started, np.concatenate((weight, weight[~waits])), 2 * _PRIOR)
    return Calibration(np.zeros(1), np.ones(1), _POINTS, came)


def _equal_weights(group: np.ndarray) -> np.ndarray:
    """Return weights, 1 on average, by which each group counts the same."""
    _, number, count = np.unique(group, return_inverse=True, return_counts=True)
    return np.asarray(len(number) / len(count) / count[number])


def _odds(predicted: np.ndarray, waited_s: np.ndarray, age_s: np.ndarray, edge_s: float) -> tuple[float, float]:
    """Return shift and slope of the log odds of starting within ``edge_s``: a ridge logistic regression."""
    decided = age_s > edge_s
    chance = np.clip(predicted[decided], 1e-3, 1.0 - 1e-3)
    odds, came = np.log(chance / (1.0 - chance)), (waited_s[decided] <= edge_s).astype(np.float64)
    inputs, weights = np.column_stack((np.ones(len(odds)), odds)), np.array([0.0, 1.0])
    for _ in range(100):
        mean = 1.0 / (1.0 + np.exp(-np.clip(inputs @ weights, -30.0, 30.0)))
        slope = inputs.T @ (came - mean) - _PRIOR_ODDS / 4.0 * (weights - (0.0, 1.0))
        curvature = (inputs * (mean * (1.0 - mean))[:, None]).T @ inputs + _PRIOR_ODDS / 4.0 * np.eye(2)
        step = np.clip(np.linalg.solve(curvature, slope), -1.0, 1.0)  # if chances are far off, a whole step overshoots
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return float(weights[0]), float(max(weights[1], 0.05))


def _came_true(at: np.ndarray, started: np.ndarray, weight: np.ndarray, prior: float) -> np.ndarray:
    """Return the weighted share of jobs that start by each of ``_POINTS`` of their chance, rising."""
    order = np.argsort(at, kind="stable")
    at, weight = at[order], weight[order]
    starts = started[order] * weight
    risk = np.cumsum(weight[::-1])[::-1]
    stays = np.cumprod(1.0 - starts / risk)
    by = np.searchsorted(at, _POINTS, "right")
    came = 1.0 - np.concatenate(([1.0], stays))[by]
    seen = starts.sum()
    mixed = (came * seen + _POINTS * prior) / (seen + prior)
    mixed[0], mixed[-1] = 0.0, 1.0
    return np.maximum.accumulate(mixed)


CALIBRATED_DAYS = 30
"""Days of answers that a calibration uses."""
SPARE_AT = list(FEATURES).index(SPARE)
"""The column of the state that tells whether a job fits."""


@dataclass(frozen=True)
class Questions:
    """Questions with the models' inputs at their times; arrays [questions].

    ``row`` of the jobs and ``at_s`` int64; ``states`` float64 [questions, features]; ``scenarios`` float64 [questions,
    ``SCENARIOS``] ascending; ``plan_s`` float64 is the start under EASY if jobs run for their requests and no job
    follows.
    """

    row: np.ndarray
    at_s: np.ndarray
    states: np.ndarray
    scenarios: np.ndarray
    plan_s: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: np.ndarray) -> Questions:
        """Return the chosen questions."""
        return Questions(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def waited(self, start_s: np.ndarray, until_s: int) -> tuple[np.ndarray, np.ndarray]:
        """Return how long each job waited after its question, and which jobs still wait.

        As known by ``until_s``. Seconds float64 and bool [questions]; ``start_s`` int64 [jobs] are the starts of all
        jobs.
        """
        start = start_s[self.row]
        waits = start > until_s
        return (np.where(waits, until_s, start) - self.at_s).astype(np.float64), waits


def fit(method: str, questions: Questions, start_s: np.ndarray, until_s: int, seed: int) -> StartModel:
    """Return an uncalibrated model of ``method`` that learns from ``questions``.

    Their outcomes are those known by ``until_s``; ``start_s`` int64 [jobs] are the starts of all jobs.
    """
    waited, waits = questions.waited(start_s, until_s)
    plans, trees = questions.states[:, list(PLANS)], {}
    if method == HAZARD:
        for kind, scenarios in ((STATE, None), (BOTH, questions.scenarios)):
            trees[kind] = grow(questions.states, plans, scenarios, waited, waits, seed=seed)
        trees[POOLED] = trees[BOTH]
    has_room = questions.states[:, SPARE_AT] >= 0
    recent = np.stack([_recent(waited[rows], waits[rows]) for rows in (has_room, ~has_room)])
    return StartModel(method, tuple(FEATURES), PLANS, trees, {}, recent, until_s, until_s)


def _recent(waited_s: np.ndarray, waits: np.ndarray) -> np.ndarray:
    """Return the distribution of waits without features: the Kaplan-Meier estimate at the edges."""
    stays, distribution = 1.0, np.ones(len(EDGES_S))
    for number, edge in enumerate(EDGES_S[:-1]):
        low = EDGES_S[number - 1] if number else -1.0
        starts = ((waited_s > low) & (waited_s <= edge) & ~waits).sum()
        stays *= 1.0 - starts / max((waited_s > low).sum(), 1)
        distribution[number] = 1.0 - stays
    return distribution


def raw(model: StartModel, questions: Questions, kind: str) -> np.ndarray:
    """Return uncalibrated distributions of many questions, float64 [questions, edges]."""
    if model.method == RECENT or not len(questions):
        return model.raw(questions.states, None)
    scenarios = None if kind == STATE else questions.scenarios
    distributions = chances(model.trees[kind], questions.states, questions.states[:, list(PLANS)], scenarios)
    return pooled(distributions, questions.scenarios) if kind == POOLED else distributions


Uncalibrated = Mapping[str, np.ndarray]
"""Uncalibrated distributions of questions, by kind of inputs."""


def uncalibrated(model: StartModel, questions: Questions) -> Uncalibrated:
    """Return a model's uncalibrated distributions of many questions."""
    distributions = {
        kind: raw(model, questions, kind) for kind in model.trees or (STATE,) if kind != POOLED or BOTH not in model.trees
    }
    if {BOTH, POOLED} <= model.trees.keys():  # both from the same trees
        distributions[POOLED] = pooled(distributions[BOTH], questions.scenarios)
    return distributions


def restricted(model: StartModel, kind: str) -> StartModel:
    """Return ``model`` reduced to ``kind``, and to the state for questions without scenarios."""
    return replace(model, trees={name: trees for name, trees in model.trees.items() if name in (STATE, kind)})


def best_kind(chances: Uncalibrated, waited_s: np.ndarray, waits: np.ndarray) -> tuple[str, np.ndarray]:
    """Return the best kind of inputs by ranked scores of started jobs, and those scores.

    Scenarios mislead if the site's scheduler is not the simulated one; if it is, the mean with their distribution errs
    less.
    """
    scores = {kind: ranked_scores(chance, waited_s)[~waits] for kind, chance in chances.items()}
    kind = max(scores, key=lambda name: (scores[name].mean() if len(scores[name]) else 0.0, name == BOTH))
    return kind, scores[kind]


def refresh(
    model: StartModel, chances: Uncalibrated, since_s: int, questions: Questions, start_s: np.ndarray, at_s: int
) -> StartModel:
    """Return ``model`` calibrated as of ``at_s`` on its distributions of the days before.

    ``chances`` of the ``questions`` are by this model or one like it, which has not learned from questions after
    ``since_s``. If they are too few, or the method is ``RECENT``, only ``at_s`` changes: an earlier calibration stays.
    """
    past = (questions.at_s >= max(at_s - CALIBRATED_DAYS * DAY_S, since_s)) & (questions.at_s < at_s)
    if model.method == RECENT or past.sum() < ENOUGH:
        return replace(model, at_s=at_s)
    waited, waits = questions.take(past).waited(start_s, at_s - 1)
    age = (at_s - questions.at_s[past]).astype(np.float64)
    return replace(
        model, at_s=at_s, calibrations={kind: calibrate(chances[kind][past], waited, waits, age) for kind in model.trees}
    )


def predict(model: StartModel, chances: Uncalibrated) -> np.ndarray:
    """Return distributions of :func:`uncalibrated`, calibrated, float64 [questions, edges]."""
    kind = model.best(chances)
    return model.calibrated(kind, chances[kind])
