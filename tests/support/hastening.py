"""What MLflow does for each model that is logged or loaded, done once or faster."""

from __future__ import annotations

from functools import cache


def hasten_mlflow() -> None:
    """Let MLflow look up installed packages once, and read YAML by the parser in C."""
    import yaml
    from mlflow.utils import requirements_utils

    requirements_utils._get_installed_version = cache(requirements_utils._get_installed_version)
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
