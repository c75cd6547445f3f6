"""Models of when jobs start: trained on questions, calibrated on known outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from features.clock import DAY_S
from models.packed.queue_state import FEATURES, PLANS
from models.packed.start_distribution import EDGES_S, pooled
from models.packed.start_predictor import BOTH, HAZARD, POOLED, RECENT, SPARE, STATE, StartModel
from models.starts.bulk import chances
from models.starts.evaluation import ranked_scores
from models.starts.training import ENOUGH, calibrate, grow

CALIBRATED_DAYS = 30
"""Days of answers that a calibration uses."""
SPARE_AT = list(FEATURES).index(SPARE)
"""The column of the state that tells whether a job fits."""


@dataclass(frozen=True)
class Questions:
    """Questions with the models' inputs at their times; arrays [questions].

    ``row`` of the jobs and ``at_s`` int64; ``states`` float64 [questions, features]; ``scenarios`` float64 [questions,
    ``SCENARIOS``] ascending; ``plan_s`` float64 is the start under EASY if jobs run for their requests and no job follows.
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

        As known by ``until_s``. Seconds float64 and bool [questions]; ``start_s`` int64 [jobs] are the starts of all jobs.
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

    Scenarios mislead if the site's scheduler is not the simulated one; if it is, the mean with their distribution errs less.
    """
    scores = {kind: ranked_scores(chance, waited_s)[~waits] for kind, chance in chances.items()}
    kind = max(scores, key=lambda name: (scores[name].mean() if len(scores[name]) else 0.0, name == BOTH))
    return kind, scores[kind]


def refresh(
    model: StartModel, chances: Uncalibrated, since_s: int, questions: Questions, start_s: np.ndarray, at_s: int
) -> StartModel:
    """Return ``model`` calibrated as of ``at_s`` on its distributions of the days before.

    ``chances`` of the ``questions`` are by this model or one like it, which has not learned from questions after ``since_s``.
    If they are too few, or the method is ``RECENT``, only ``at_s`` changes: an earlier calibration stays.
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
