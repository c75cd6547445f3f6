"""The model that the scheduler of a simulated cluster asks, in the cluster's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from features.errors import InputError
from features.monitoring.samplers import MORE_FEATURES, PROBE_FEATURES, TYPE_FEATURES, counter_features
from models.variability.compiled_classifiers import Arrays
from models.variability.model import VariabilityModel
from sim.cluster.site import (
    COIN,
    CUTOFF,
    DECIDER,
    EVERY_S,
    FIRST_CLASS,
    MODEL,
    NO_MODEL,
    NOWCAST,
    ORACLE,
    OUTSIDE,
    PATIENCE_S,
    ClusterSite,
)
from sim.cluster.start_models import COUNTERS, EVERY, NEWEST, PROBED, SITUATED, TYPED
from sim.kernel.start_decision import StartDecision
from sim.schedulers.names import Rush


@dataclass(frozen=True)
class Adviser:
    """A variability model as the scheduler asks it, with the nodes' counters it reads."""

    model: VariabilityModel
    scope: str = "own"

    @property
    def arrays(self) -> Arrays:
        """Return the model as the kernel walks it; InputError if only its library can answer."""
        if self.model.arrays is None:
            raise InputError(f"a scheduler cannot ask {self.model.classifier}: take a classifier of trees")
        return self.model.arrays


class StartAdvice(NamedTuple):
    """What decides whether jobs may start: ``advisers`` by name, references, or a callback.

    ``limits`` are for oracle and nowcast: by (application, nodes), the runtime in seconds beyond which a run counts as varied.
    ``coin`` is the probability with which the coin skips.
    """

    advisers: Mapping[str, Adviser] = MappingProxyType({})
    limits: Mapping[tuple[str, int], float] = MappingProxyType({})
    coin: float = 0.0
    callback: StartDecision | None = None


WITHOUT_MODEL = {"oracle": ORACLE, "nowcast": NOWCAST, "coin": COIN}
"""References that decide without a trained model: see :mod:`sim.cluster.start_models`."""


def ask(site: ClusterSite, rush: Rush | None, advice: StartAdvice) -> np.ndarray:
    """Write the deciding model into ``site``; return its columns' codes, int64 [columns]."""
    nothing = np.zeros(0, np.int64)
    site.clock[DECIDER] = NO_MODEL
    if rush is None:
        return nothing
    site.clock[[PATIENCE_S, EVERY_S]] = rush.patience, rush.every
    if advice.callback is not None:
        site.clock[DECIDER] = OUTSIDE
        return nothing
    if rush.model in WITHOUT_MODEL:
        site.clock[DECIDER] = WITHOUT_MODEL[rush.model]
        site.physics[CUTOFF] = advice.coin
        return nothing
    if rush.model not in advice.advisers:
        raise InputError(
            f"+RUSH(model={rush.model}); known models: {', '.join(WITHOUT_MODEL)}{''.join(f', {name}' for name in advice.advisers)}"
        )
    adviser = advice.advisers[rush.model]
    model = adviser.model
    site.clock[DECIDER] = MODEL
    first = model.variation
    site.clock[FIRST_CLASS] = first
    site.physics[CUTOFF] = model.cutoffs[first - 1] if rush.cutoff is None else rush.cutoff  # of these classes together
    return column_codes(model.columns, adviser.scope)


def sampled(codes: np.ndarray) -> np.ndarray:
    """Return the counters that these columns read, int64, ascending."""
    newest = codes[(codes >= NEWEST) & (codes < SITUATED)] - NEWEST
    return np.union1d(codes[codes < PROBED] // 3 % COUNTERS, newest)


def column_codes(columns: tuple[str, ...], scope: str) -> np.ndarray:
    """Return the codes of a model's columns for :func:`sim.cluster.start_models.look`.

    Raises InputError for a column that the simulated cluster does not have.
    """
    first = EVERY if scope == "all" else 0
    codes = {name: first + at for at, name in enumerate(counter_features())}
    codes |= {name: PROBED + at for at, name in enumerate(PROBE_FEATURES)}
    codes |= {name: TYPED + at for at, name in enumerate(TYPE_FEATURES)}
    codes |= {name: NEWEST + at for at, name in enumerate(MORE_FEATURES)}
    unknown = [name for name in columns if name not in codes]
    if unknown:
        raise InputError(f"the model reads {unknown[0]}, which the simulated cluster does not measure")
    return np.array([codes[name] for name in columns], np.int64)
