"""The site's MLflow registry, as a service reads it."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from features.errors import InputError, first_line, masked
from models.packed.runtime_predictor import RuntimePredictor
from models.packed.site_names import check_key
from models.packed.start_predictor import StartModel
from pipelines.lake.home import home
from pipelines.lake.publishing import version_of
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

RUNTIMES, STARTS = "runtime-", "start-"
"""Beginnings of the names of registered models, by what they predict."""


class SiteRegistry:
    """The site's registry, opened when it is first read.

    It is that of :func:`pipelines.lake.registry.tracking`. A server that does not answer is given up after seconds, not after
    MLflow's minutes of retries.
    """

    def __init__(self) -> None:
        for name, value in (("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"), ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")):
            os.environ.setdefault(name, value)

    @cached_property
    def _store(self) -> Tracking:
        return tracking()

    def version(self, name: str, alias: str) -> str:
        """Return the version at ``alias``, "" if there is none."""
        from mlflow.exceptions import MlflowException

        store = self._store
        try:
            return version_of(Lake(home() / "lake"), store, name, alias)
        except (MlflowException, OSError) as error:
            why = first_line(error)
            raise InputError(f"registry {masked(store.uri)}: {masked(why)}") from error

    def alternatives(self, name: str) -> str:
        """Return the aliases of a model or, if it is missing, the names like it; else ""."""
        from models.registry.registration import alternatives

        return alternatives(self._store, name)

    def trained_unix_s(self, name: str, number: str) -> float:
        """Return when the model of a version was registered.

        Nights renew its history in versions of their own, without training it.
        """
        from models.registry.registration import trained_number

        store = self._store
        trained = trained_number(store, store.client.get_model_version(name, number))
        return float(store.client.get_model_version(name, trained).creation_timestamp) / 1000.0

    def load(self, name: str, number: str) -> RuntimePredictor | StartModel:
        """Load a version; raise InputError also if names are hashed with a key that is not set."""
        if name.startswith(STARTS):
            from models.registry.start_registration import load as load_starts

            return load_starts(self._store, name, number)
        from models.registry.runtime_registration import load

        predictor = load(self._store, name, number)
        try:
            check_key(predictor.hashed_with, f"version {number} of {name}", required=True)
        except ValueError as error:
            raise InputError(str(error)) from error
        return predictor
