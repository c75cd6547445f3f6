"""A retraining over what was retrained over before: nothing is registered, and what serves is told with its measures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from models.registry.tracking import Tracking

MADE_FROM = "made_from"
"""Tag of a version: what :func:`made_from` says of the data, the settings and the code that it was made from."""
_HOUSE = Path(__file__).resolve().parents[2]
_LEARNING = (
    "features",
    "models",
    "pipelines/workflows/promotion.py",
    "pipelines/workflows/retraining.py",
    "pipelines/workflows/judging.py",
    "pipelines/workflows/variability_models.py",
)
"""What decides what is learned and judged; where it changed, there is something new."""
_LEARNERS = ("numpy", "pandas", "numba", "lightgbm", "scikit-learn")


def made_from(facts: Mapping[str, object]) -> str:
    """A fingerprint of ``facts`` (data, settings: anything JSON can hold) together with the code that learns and its packages."""
    code = {**learning_code(), **{package: version(package) for package in _LEARNERS}}
    return hashlib.sha256(json.dumps([dict(facts), code], sort_keys=True, default=str).encode()).hexdigest()[:32]


def learning_code() -> dict[str, str]:
    """SHA-256 of every file of the code that learns, by its name in the house."""
    places = [_HOUSE / part for part in _LEARNING]
    files = [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    return {file.relative_to(_HOUSE).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def nothing_new(store: Tracking, name: str, key: str) -> list[ModelVersion]:
    """The versions of ``name`` that carry ``key`` (:func:`made_from`) and those that serve, if champion or challenger carries it; else none."""
    from models.registry.versions import aliases, all_versions

    named = set(aliases(store, name).values())
    every = all_versions(store, name)
    if not any(each.tags.get(MADE_FROM) == key and str(each.version) in named for each in every):
        return []
    told = [each for each in every if each.tags.get(MADE_FROM) == key or str(each.version) in named]
    return sorted(told, key=lambda each: int(each.version))


def serving(store: Tracking, name: str, versions: list[ModelVersion], measures: Mapping[str, str]) -> pd.DataFrame:
    """``model version method alias`` of versions, a number (NaN if it records none) for each of ``measures``, a column and its tag, and ``why``."""
    from models.registry.versions import aliases

    titles = {number: title for title, number in aliases(store, name).items()}
    rows = [
        {
            "model": name,
            "version": int(each.version),
            "method": each.tags.get("method", "unknown"),
            "alias": titles.get(str(each.version), ""),
            **{column: float(each.tags.get(tag, "nan")) for column, tag in measures.items()},
            "why": each.description or "",
        }
        for each in versions
    ]
    return pd.DataFrame(rows)
