"""Predictor names: turn texts such as ``requested*2`` or ``nag(eta=100)`` into predictors.

Predictors that learn nothing are here too: requests, exact runtimes, one distribution for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from features.deferred import pd
from features.errors import InputError, unknown
from models.runtime.distribution import LEVELS
from models.runtime.hierarchy import hierarchy
from models.runtime.knn import knn
from models.runtime.last2 import last2
from models.runtime.lightgbm import boosted
from models.runtime.nag import cv_triple, nag
from models.runtime.okcm import okcm
from models.runtime.options import Option, parse, read, spelled
from models.runtime.protocol import CompiledPredictor, Predictor, TablePredictor
from models.runtime.quantile import quantile
from models.runtime.sp import PUBLISHED, sp


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


_PRIOR = {"limit": Option(0.5, minimum=0.0, maximum=0.99), "power": Option(2.0, minimum=0.0, maximum=100.0)}


def prior(**options: str) -> TablePredictor:
    """Predict runtimes as distributed on any machine, and answer their median.

    Many jobs end at once, many run to their request: on four machines (first halves of KTH-SP2, SDSC-SP2, LANL-CM5 and
    ALCF-Theta) runtime / request is close to the square of a uniform number, cut at 1 for a fifth of the jobs. A
    schedule is better if more jobs are assumed to run to their request, because areas count there and long jobs use
    more of their request. By default half are assumed to, as chosen on these first halves. The quantile at level u is
    request * min(1, u / (1 - limit))^power. Nothing is fitted to the machine: a rule that schedules by this
    distribution is the baseline for all learners.

    By default the median is the request. ``limit`` is the share of jobs that run to their request, ``power`` the shape
    of the others. Raises InputError for unknown options and invalid values.
    """
    values = read(options, _PRIOR)

    def shares(levels: np.ndarray) -> np.ndarray:
        return np.minimum(1.0, levels / (1.0 - values["limit"])) ** values["power"]

    def quantiles(jobs: pd.DataFrame) -> pd.DataFrame:
        requested = jobs["requested_s"].to_numpy(float)[:, None]
        seconds = requested * shares(LEVELS)
        np.maximum(seconds, np.minimum(1.0, requested), out=seconds)
        return pd.DataFrame(seconds, columns=LEVELS, index=jobs.index, copy=False)

    half = float(shares(np.array(0.5)))
    return TablePredictor(
        spelled("prior", values, _PRIOR),
        lambda jobs: np.maximum(jobs["requested_s"].to_numpy(float) * half, 1.0),
        quantiles=quantiles,
    )


_PLAIN: dict[str, Callable[[], Predictor]] = {"requested": requested, "clairvoyant": clairvoyant, "last2": last2}
_PLAIN |= {f"sp{x}": partial(sp, x=x) for x in PUBLISHED}
_MULTIPLIED: dict[str, Callable[[float], Predictor]] = {"requested": requested, "clairvoyant": clairvoyant}
_OPTIONAL: dict[str, Callable[..., Predictor]] = {
    "prior": prior,
    "nag": nag,
    "cv-triple": cv_triple,
    "hierarchy": hierarchy,
    "knn": knn,
    "okcm": okcm,
    "sp": sp,
    "lightgbm": boosted,
    "quantile": quantile,
}
"""Predictors that take options as texts."""
_AT_RANDOM = ("lightgbm", "quantile")
"""Predictors that draw random numbers and take the option ``seed``."""
NAMES = (*_PLAIN, *_OPTIONAL)
"""All names, without options, factors, registered models and tables."""


def predictor(name: str, seed: int = 0) -> Predictor:
    """Return the predictor called ``name``.

    ``seed`` is used if the predictor takes one and its options state none; its name does not show it. Raises
    InputError, with the known names, for any other name or option.
    """
    if seed and takes_seed(name):
        family, _, options = name.partition("(")
        seeded = predictor(f"{family}({options.removesuffix(')')}{',' if options else ''}seed={seed})")
        assert isinstance(seeded, CompiledPredictor)
        return replace(seeded, name=predictor(name).name)
    if name in _PLAIN:
        return _PLAIN[name]()
    match = re.fullmatch(r"(\w+)\*(\d+(?:\.\d+)?)", name)
    if match and match[1] in _MULTIPLIED and float(match[2]) > 0:
        return _MULTIPLIED[match[1]](float(match[2]))
    match = re.fullmatch(r"([\w-]+)(?:\((.+)\))?", name)
    if match and match[1] in _OPTIONAL:
        try:
            return _OPTIONAL[match[1]](**parse(match[2] or ""))
        except InputError as error:
            raise InputError(f"predictor {name}: {error}") from error
    listed = f"{' '.join(NAMES)}, options in brackets; requested*FACTOR; registry:NAME[@ALIAS]"
    raise unknown("predictor", name, NAMES, listed)


def takes_seed(name: str) -> bool:
    """Tell whether the predictor ``name`` is random and its options state no seed."""
    match = re.fullmatch(r"([\w-]+)(?:\((.+)\))?", name)
    return bool(match and match[1] in _AT_RANDOM and "seed" not in parse(match[2] or ""))
