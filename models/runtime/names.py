"""Predictor names: turn texts such as ``requested*2`` or ``nag(eta=100)`` into predictors."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from features.errors import InputError, unknown
from models.runtime.fixed import clairvoyant, prior, requested
from models.runtime.hierarchy import hierarchy
from models.runtime.knn import knn
from models.runtime.last2 import last2
from models.runtime.lightgbm import boosted
from models.runtime.nag import cv_triple, nag
from models.runtime.okcm import okcm
from models.runtime.options import parse
from models.runtime.protocol import CompiledPredictor, Predictor
from models.runtime.quantile import quantile
from models.runtime.sp import PUBLISHED, sp

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

    ``seed`` is used if the predictor takes one and its options state none; its name does not show it. Raises InputError, with the
    known names, for any other name or option.
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
    listed = f"{' '.join(NAMES)}, options in brackets; requested*FACTOR; registry:NAME[@ALIAS]; table:FILE"
    raise unknown("predictor", name, NAMES, listed)


def takes_seed(name: str) -> bool:
    """Tell whether the predictor ``name`` is random and its options state no seed."""
    match = re.fullmatch(r"([\w-]+)(?:\((.+)\))?", name)
    return bool(match and match[1] in _AT_RANDOM and "seed" not in parse(match[2] or ""))
