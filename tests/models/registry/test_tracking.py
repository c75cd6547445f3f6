"""MLflow's store: what of its address is shown."""

from models.registry.tracking import Tracking


def test_a_password_in_a_stores_address_is_not_shown() -> None:
    store = Tracking("postgresql+psycopg2://reader:hunter2@db.example.org/mlflow", "1", None)  # type: ignore[arg-type]
    assert store.place == "postgresql+psycopg2://***@db.example.org/mlflow"
