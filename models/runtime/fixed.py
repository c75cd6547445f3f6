"""Predictors that learn nothing: requests, exact runtimes, one distribution for all.

``prior`` gives runtimes as distributed on any machine. Many jobs end at once, many run to their request: on four machines (first
halves of KTH-SP2, SDSC-SP2, LANL-CM5 and ALCF-Theta) runtime / request is close to the square of a uniform number, cut at 1 for a
fifth of the jobs. A schedule is better if more jobs are assumed to run to their request, because areas count there and long jobs
use more of their request. By default half are assumed to, as chosen on these first halves. The quantile at level u is request *
min(1, u / (1 - limit))^power. Nothing is fitted to the machine: a rule that schedules by this distribution is the baseline for all
learners.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from models.runtime.distribution import LEVELS
from models.runtime.options import check_known, number, spelled
from models.runtime.protocol import TablePredictor


def requested(factor: float = 1.0) -> TablePredictor:
    """Predict ``factor`` times the request.

    A multiple above 1 is not cut at the request, as in the published doubling experiments.
    """
    name = "requested" if factor == 1.0 else f"requested*{factor:g}"
    return TablePredictor(name, lambda jobs: np.asarray(jobs["requested_s"], float) * factor, capped=factor <= 1.0, by_columns=True)


def clairvoyant(factor: float = 1.0) -> TablePredictor:
    """Predict ``factor`` times the actual runtime, at most the request."""
    name = "clairvoyant" if factor == 1.0 else f"clairvoyant*{factor:g}"
    return TablePredictor(name, lambda jobs: np.asarray(jobs["runtime_s"], float) * factor, by_columns=True)


USUAL = {"limit": "0.5", "power": "2"}


def prior(**options: str) -> TablePredictor:
    """Return the predictor: its answer is the median, by default the request.

    ``limit`` is the share of jobs that run to their request, ``power`` the shape of the others. Raises InputError for unknown
    options and invalid values.
    """
    for option in options:
        check_known(option, tuple(USUAL))
    settings = USUAL | options
    limit = number(f"limit={settings['limit']}", settings["limit"], minimum=0.0, maximum=0.99)
    power = number(f"power={settings['power']}", settings["power"], minimum=0.0, maximum=100.0)

    def shares(levels: np.ndarray) -> np.ndarray:
        return np.minimum(1.0, levels / (1.0 - limit)) ** power

    def quantiles(jobs: pd.DataFrame) -> pd.DataFrame:
        requested = jobs["requested_s"].to_numpy(float)[:, None]
        seconds = requested * shares(LEVELS)
        np.maximum(seconds, np.minimum(1.0, requested), out=seconds)
        return pd.DataFrame(seconds, columns=LEVELS, index=jobs.index, copy=False)

    half = float(shares(np.array(0.5)))
    return TablePredictor(
        spelled("prior", options, USUAL),
        lambda jobs: np.maximum(jobs["requested_s"].to_numpy(float) * half, 1.0),
        quantiles=quantiles,
    )
