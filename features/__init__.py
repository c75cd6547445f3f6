"""Canonical job tables and the pure functions that turn them into model inputs.

Nothing here reads or writes a file, and nothing here depends on Dagster or MLflow.
"""

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.frames import jobs_from
from features.jobs.schema import Trace, fingerprint

__all__ = ["CleanTrace", "InputError", "Trace", "clean", "fingerprint", "jobs_from"]
