"""The methods that stand for election as ``runtime-<trace>``, from the simplest: how each is trained. The one place where a candidate is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from models.packed.methods import PREDICTED, Boosting, Last2, Method, Quantile, Requested
from models.registry import quantile_training
from models.registry.accounting import Accounting
from models.registry.walk_forward import REMEMBERED_JOBS
from models.runtime.gradient_boosting import GradientBoosting, fit


def _as_trained(method: Method, known: Accounting, at_s: int) -> Method:
    return method


def _from_histories(method: Method, known: Accounting, rows: np.ndarray) -> np.ndarray:
    return method.answer(known.inputs.iloc[rows], known.asked(rows))[PREDICTED]


@dataclass(frozen=True)
class Trainer:
    """How a method is trained: ``train(known, at_s, seed)`` as a night at ``at_s`` does, when some job has ended, on what accounting held then.

    ``learns`` is false for a method that is all formula: trained again it is the same, so it never challenges itself. ``carry_on(method, known, at_s)``
    is the trained method in a later night, where it keeps a state of its own beside the users' histories, and ``up_to_the_second(method, known, rows)``
    what it would say to submissions after its night if it knew every end the second it happens, seconds [rows].
    """

    train: Callable[[Accounting, int, int], Method]
    parameters: Callable[[int], Mapping[str, object]]
    learns: bool
    carry_on: Callable[[Method, Accounting, int], Method] = _as_trained
    up_to_the_second: Callable[[Method, Accounting, np.ndarray], np.ndarray] = _from_histories


def _boosting(known: Accounting, at_s: int, seed: int) -> Method:
    then = known.then(at_s)
    recent = slice(-REMEMBERED_JOBS, None)
    runtime = then.jobs["runtime_s"].to_numpy(np.float64)
    return Boosting(fit(GradientBoosting(seed=seed), then.inputs.iloc[recent], runtime[recent]))


def _carry_quantile_on(method: Method, known: Accounting, at_s: int) -> Method:
    assert isinstance(method, Quantile)
    return Quantile(quantile_training.carry_on(method.forest, known, at_s))


def _quantile_up_to_the_second(method: Method, known: Accounting, rows: np.ndarray) -> np.ndarray:
    assert isinstance(method, Quantile)
    return quantile_training.up_to_the_second(method.forest, known, rows)


TRAINERS: dict[str, Trainer] = {
    "last2": Trainer(lambda *_: Last2(), lambda _: {}, learns=False),
    Boosting.name: Trainer(_boosting, lambda seed: vars(GradientBoosting(seed=seed)), learns=True),
    Quantile.name: Trainer(
        lambda known, at_s, seed: Quantile(quantile_training.grow(known, at_s, seed)),
        lambda _: quantile_training.parameters(),
        learns=True,
        carry_on=_carry_quantile_on,
        up_to_the_second=_quantile_up_to_the_second,
    ),
}
"""By name, from the simplest: of two that are equally good the simpler is chosen."""


def train(name: str, known: Accounting, at_s: int, seed: int) -> Method:
    """The method ``name`` as a night at ``at_s`` trains it; where no job has ended by then, the requested time answers for it."""
    return TRAINERS[name].train(known, at_s, seed) if len(known.ended(at_s)) else Requested()


def carried_on(method: Method, known: Accounting, at_s: int) -> Method:
    """A trained method as a night at ``at_s`` serves it: what it learned stays, what it remembers of jobs is that of the night."""
    return TRAINERS[method.name].carry_on(method, known, at_s) if method.name in TRAINERS else method


def up_to_the_second(method: Method, known: Accounting, rows: np.ndarray) -> np.ndarray:
    """What ``method`` would say to the submissions ``rows`` of the day after its night if it knew all ends at once, seconds, float64 [rows]."""
    trainer = TRAINERS.get(method.name)
    return (trainer.up_to_the_second if trainer else _from_histories)(method, known, rows)


def outdated(method: Method) -> bool:
    """Whether this code can no longer carry ``method`` on, and can only train it anew."""
    return isinstance(method, Quantile) and not quantile_training.fits(method.forest)
