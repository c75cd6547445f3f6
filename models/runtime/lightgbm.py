"""``lightgbm``: boosted regression trees, retrained each night inside the simulation.

At each midnight the trees are grown anew from the jobs that have ended by then in that simulation, with their features
at submission (:mod:`features.jobs.like_jobs`), and predict the jobs of the next day. They correct the runtime of the
last similar job, which alone is the prediction while fewer than ``ENOUGH`` jobs have ended.

Trees are grown on the logarithm of runtime, for mean accuracy. The loss of a job is 1 - min(p/r, r/p) = 1 - exp(-|log
p - log r|): absolute error of the logarithm near the truth, flat for large errors. It is minimised by majorisation
(Hunter & Lange 2004): each round fits the quadratic that touches the loss from above at the current predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from features.deferred import pd
from features.jit import apart
from features.jobs.like_jobs import ALIKE, COMMON
from models.runtime.job_features import ASKED_OF, KEPT, SAID, describe, fresh_memory
from models.runtime.memory import Memory, width
from models.runtime.options import EVERY, SEED, Option, read, spelled
from models.runtime.protocol import CompiledPredictor
from models.trees import corrected, plain_trees

if TYPE_CHECKING:
    import lightgbm

KINK = 0.1
"""Errors of the logarithm below this (10 %) count quadratically: the absolute value has no curvature there to set a
step."""


def boost(
    matrix: np.ndarray, target: np.ndarray, *, trees: int, learning_rate: float, leaves: int, min_jobs_in_leaf: int, seed: int
) -> lightgbm.Booster:
    """Grow trees from ``matrix`` float64 [jobs, features] for ``target`` float64 [jobs].

    The target is the logarithm of runtime over a first guess. One thread: nights are trained in parallel, and OpenMP
    threads that wait for each other on a busy machine are slower than one.
    """
    import lightgbm  # slow to import, and not every run trains

    parameters = {
        "objective": loss_of_accuracy,
        "learning_rate": learning_rate,
        "num_leaves": leaves,
        "min_data_in_leaf": min_jobs_in_leaf,
        "num_threads": 1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,  # otherwise LightGBM times both ways and may choose differently
        "verbosity": -1,
    }
    # columns that cannot be split are kept: LightGBM refuses to train if none is left
    settings = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1, "max_bin": 63, "bin_construct_sample_cnt": 2000}
    return lightgbm.train(parameters, lightgbm.Dataset(matrix, target, params=settings), num_boost_round=trees)


def loss_of_accuracy(predicted: np.ndarray, data: lightgbm.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient of 1 - exp(-|d|), d = predicted - label, and a majorising curvature."""
    error = predicted - data.get_label()
    curvature = np.exp(-np.abs(error)) / np.maximum(np.abs(error), KINK)
    return curvature * error, curvature


LIGHTGBM = 7
"""Code of this predictor inside the kernel."""
LEARNING_RATE, MIN_JOBS_IN_LEAF = 0.3, 100
"""On the first half of KTH-SP2 accuracy is 55.5 %, within 0.2 points for rates 0.1, 0.2; min 20, 50, 200 jobs; 15, 63
leaves."""
ENOUGH = 200
"""Min ended jobs for training. Not tuned."""
OPTIONS = {
    "trees": Option(25, minimum=1, maximum=10_000),
    "leaves": Option(31, minimum=2, maximum=10_000),
    "jobs": Option(12_000, minimum=ENOUGH, maximum=10_000_000),
    "seed": SEED,
    "every": EVERY,
}
"""``jobs``: number of most recent ended jobs to learn from. On the first half of KTH-SP2 25, 50 and 100 trees are
within 0.001 of each other's accuracy, and 6,000 jobs within 0.002 of 12,000."""
TREES, LEAVES, MODELS, HEADER = range(4)
"""Slots of ``Memory.model``: the number of trees, the max leaves of one, and the number of models so far, one more each
night. Then come the thresholds of all trees, ``leaves`` for each, and the values of their leaves."""


def boosted(**options: str) -> CompiledPredictor:
    """Return the predictor.

    ``trees`` and ``leaves`` of each model, the max number of ``jobs`` to learn from, the ``seed``, and of how
    many midnights one brings new trees (``every``).
    """
    values = read(options, OPTIONS)
    trees, leaves = values["trees"], values["leaves"]

    def memory(jobs: pd.DataFrame) -> Memory:
        model = np.zeros(HEADER + 2 * trees * leaves)
        model[LEAVES], model[MODELS] = leaves, 1.0
        fresh = fresh_memory(jobs, KEPT, model)
        return fresh._replace(links=np.zeros((trees * leaves, 3), np.int64))

    def retrain(memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        rows = ended[-values["jobs"] :]
        if len(rows) >= ENOUGH:
            _grow(memory, rows, runtime, trees, leaves, values["seed"])
        return memory

    return CompiledPredictor(spelled("lightgbm", values, OPTIONS), LIGHTGBM, memory, retrain, every=values["every"])


def _grow(memory: Memory, rows: np.ndarray, runtime: np.ndarray, trees: int, leaves: int, seed: int) -> None:
    """Grow new trees from the jobs ``rows``, which have ended."""
    nodes, thresholds, values = grown(memory.jobs[rows, : width(memory)], runtime[rows], trees, leaves, seed)
    memory.model[TREES] = len(nodes)
    memory.model[MODELS] += 1.0
    for number in range(len(nodes)):
        first = number * leaves
        memory.links[first : first + leaves] = nodes[number]
        memory.model[HEADER + first : HEADER + first + leaves] = thresholds[number]
        memory.model[HEADER + trees * leaves + first :][:leaves] = values[number]


def grown(inputs: np.ndarray, runtime: np.ndarray, trees: int, leaves: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return trees grown from jobs: nodes, thresholds and values.

    They are [trees, leaves, 3], [trees, leaves] and [trees, leaves]. ``inputs`` float64 [jobs, features] are those of
    :mod:`features.jobs.like_jobs`, ``runtime`` seconds [jobs].
    """
    if trees == 0:
        return np.zeros((0, leaves, 3), np.int64), *np.zeros((2, 0, leaves))  # type: ignore[return-value]
    guess = inputs[:, ALIKE - COMMON]
    target, rate, least = np.log(runtime) - guess, LEARNING_RATE, MIN_JOBS_IN_LEAF
    new_trees = plain_trees(
        boost(inputs, target, trees=trees, learning_rate=rate, leaves=leaves, min_jobs_in_leaf=least, seed=seed)
    )
    nodes = np.zeros((len(new_trees), leaves, 3), np.int64)
    thresholds, values = np.zeros((2, len(new_trees), leaves))
    for number, (links, ends, corrections) in enumerate(new_trees):
        nodes[number, : len(links)], thresholds[number, : len(ends)], values[number, : len(corrections)] = links, ends, corrections
    return nodes, thresholds, values


@apart
def estimate(memory, job, jobs):
    """Predict seconds in 1..request for ``job``, just submitted."""
    describe(memory, job, jobs)
    return answer(memory, job, jobs)


@apart
def answer(memory, job, jobs):
    """Predict seconds for ``job`` as at its submission by the current trees.

    The answer is kept until the next night's trees.
    """
    model, x, kept = memory.model, memory.jobs[job], width(memory)
    if x[kept + ASKED_OF] == model[MODELS]:
        return x[kept + SAID]
    learned, trees, leaves = model[HEADER:], int(model[TREES]), int(model[LEAVES])
    x[kept + SAID] = corrected(x, x[kept - COMMON + ALIKE], jobs.requested[job], memory.links, learned, trees, leaves)
    x[kept + ASKED_OF] = model[MODELS]
    return x[kept + SAID]
