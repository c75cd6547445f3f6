"""Training of ``lightgbm`` for the registry: the simulator's code replays accounting.

Trees are grown as in the simulator, from the features of the most recent ended jobs at their submission, and then stay fixed.
Each night the model is carried on: its groups of jobs learn what ended since training. They always start from the training, so
that served answers can be reproduced at any time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from models.packed.boosting import Trees
from models.registry.accounting import Accounting
from models.registry.walk import Walk, ended_by, ended_since
from models.runtime import job_features, lightgbm


def grow(accounting: Accounting, at_s: int, seed: int) -> Trees:
    """Grow trees as of a night at ``at_s``, on the most recent jobs ended by then."""
    walk = Walk(accounting, ended_by(accounting, at_s), lightgbm.boosted(seed=str(seed)))
    walk.go(at_s)
    walk.retrain(at_s)
    return Trees(*lightgbm.grown(walk.memory), walk.groups(at_s))


def carry_on(trees: Trees, accounting: Accounting, nights: Sequence[int]) -> Iterator[Trees]:
    """Yield the same trees for each of ``nights``, ascending, with all jobs ended by then.

    One walk serves all nights.
    """
    trained, last, walk = trees.groups.at_s, max(nights, default=0), None
    for at_s in nights:
        if at_s <= trained:
            yield trees
            continue
        if walk is None:
            walk = _walk(trees, accounting, ended_since(accounting, trained, last, last))
        walk.go(at_s)
        yield replace(trees, groups=walk.groups(at_s))


def up_to_the_second(trees: Trees, accounting: Accounting, rows: np.ndarray) -> np.ndarray:
    """Return answers to the jobs ``rows`` as if all ends were known at once, seconds [rows].

    The jobs were submitted after the night of ``trees``.
    """
    last = int(accounting.jobs["submit_s"].to_numpy(np.int64)[rows].max(initial=trees.groups.at_s))
    taken = ended_since(accounting, trees.groups.at_s, int(accounting.end_s.max()), last)
    walk = _walk(trees, accounting, taken)
    walk.go(last)
    place = np.empty(len(accounting.jobs), np.int64)
    place[taken] = np.arange(len(taken))
    features = walk.memory.jobs[place[rows], : job_features.features(len(walk.alike))]
    guess = features[:, job_features.ALIKE - job_features.COMMON]
    return trees.corrected(features, guess, walk.columns.requested[place[rows]].astype(np.float64))


def _walk(trees: Trees, accounting: Accounting, rows: np.ndarray) -> Walk:
    walk = Walk(accounting, rows, lightgbm.boosted(), trees.groups.alike)
    if walk.alike != trees.groups.alike:
        raise ValueError("this accounting, or this Queuecast, has no such groups of jobs: the trees can only be trained anew")
    return walk
