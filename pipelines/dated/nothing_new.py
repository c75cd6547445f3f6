"""Retraining without anything new: register nothing, report the serving versions."""

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
"""Tag of a version: the :func:`made_from` of its data, settings and code."""
_HOUSE = Path(__file__).resolve().parents[2]
_LEARNING = (
    "features",
    "models",
    "pipelines/dated/promote.py",
    "pipelines/dated/train.py",
    "pipelines/dated/judge.py",
    "pipelines/dated/systems.py",
)
"""Code and packages that decide what is learned and judged; a change makes something new."""
_LEARNERS = ("numpy", "pandas", "numba", "lightgbm", "scikit-learn")


def made_from(facts: Mapping[str, object]) -> str:
    """Return a fingerprint of ``facts`` with the learning code and its packages.

    ``facts`` are data and settings: anything JSON can hold.
    """
    code = {**learning_code(), **{package: version(package) for package in _LEARNERS}}
    return hashlib.sha256(json.dumps([dict(facts), code], sort_keys=True, default=str).encode()).hexdigest()[:32]


def learning_code() -> dict[str, str]:
    """Return the SHA-256 of every file of the learning code, by its name in the repository."""
    places = [_HOUSE / part for part in _LEARNING]
    files = [file for place in places for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]
    return {file.relative_to(_HOUSE).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def nothing_new(store: Tracking, name: str, key: str) -> list[ModelVersion]:
    """Return the versions of ``name`` with ``key``, and those that serve, if one has it.

    ``key`` comes from :func:`made_from`; an empty list if neither champion nor challenger carries it.
    """
    from models.registry.versions import aliases, all_versions

    named = set(aliases(store, name).values())
    every = all_versions(store, name)
    if not any(each.tags.get(MADE_FROM) == key and str(each.version) in named for each in every):
        return []
    told = [each for each in every if each.tags.get(MADE_FROM) == key or str(each.version) in named]
    return sorted(told, key=lambda each: int(each.version))


def serving(store: Tracking, name: str, versions: list[ModelVersion], measures: Mapping[str, str]) -> pd.DataFrame:
    """Return ``model version method alias`` of versions, each of ``measures``, and ``why``.

    A measure is a column and its tag; NaN if a version records none.
    """
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
