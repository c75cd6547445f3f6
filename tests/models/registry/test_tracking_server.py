"""MLflow's store: how long its server is asked again, and what of its address is shown."""

import os

import pytest

from models.registry import tracking
from models.registry.tracking import Tracking


@pytest.mark.parametrize(("wait_s", "retries", "factor"), [(0, 1, 1), (1, 2, 1), (60, 6, 1), (1000, 10, 1), (5000, 10, 5)])
def test_requests_are_repeated_for_about_as_long_as_the_site_waits(
    wait_s: float, retries: int, factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_RETRIES", "BACKOFF_FACTOR"):
        monkeypatch.delenv(f"MLFLOW_HTTP_REQUEST_{name}", raising=False)
    tracking._wait_for_server(wait_s)
    settings = [int(os.environ[f"MLFLOW_HTTP_REQUEST_{name}"]) for name in ("MAX_RETRIES", "BACKOFF_FACTOR")]
    assert settings == [retries, factor]


def test_a_password_in_a_stores_address_is_not_shown() -> None:
    store = Tracking("postgresql+psycopg2://reader:hunter2@db.example.org/mlflow", "1", None)  # type: ignore[arg-type]
    assert store.place == "postgresql+psycopg2://***@db.example.org/mlflow"
