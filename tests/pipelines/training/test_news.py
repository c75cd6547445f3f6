"""The default log arrives day by day: its schedule asks for nights until the log has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from features.errors import InputError
from pipelines.assets.sensors import nightly_retraining
from pipelines.definitions import defs
from pipelines.lake.instance import dagster_home
from pipelines.lake.tables import Lake
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import first_night
from pipelines.training.ledger import arrived, days_to_come
from pipelines.training.run_settings import FIRST
from tests.support.arriving import arriving

pytestmark = pytest.mark.slow
Tick = Callable[[int], dg.SensorResult]


@pytest.fixture
def tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tick]:
    """Return what the schedule asks for on a day, in a home of the default trace."""
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("traces", [FIRST.trace])

        def evaluated(day: int) -> dg.SensorResult:
            at = datetime(2026, 3, day, 2, tzinfo=UTC)
            return nightly_retraining.evaluate_tick(
                dg.build_schedule_context(instance, at, repository_def=defs.get_repository_def())
            )

        yield evaluated


def test_a_log_that_has_ended_has_no_night(tick: Tick, tmp_path: Path) -> None:
    nights = [f"2026-02-{day:02d}" for day in range(1, load_catalogue()[FIRST.trace].arrives_days + 1)]
    lake, entry = Lake(tmp_path / "lake"), load_catalogue()[FIRST.trace]
    lake.write("nights", FIRST.trace, pd.DataFrame({"night": nights[:-1]}))
    assert tick(1).run_requests
    assert [days_to_come(lake, entry, night) for night in ("", nights[-2], nights[-1])] == [1, 1, 0], (
        "a night done again brings no other day"
    )
    lake.write("nights", FIRST.trace, pd.DataFrame({"night": nights}))
    assert tick(1).skip_message == f"the log has ended, all its days have arrived: {FIRST.trace}"


def test_a_log_has_the_days_that_are_to_come() -> None:
    clean = arriving(jobs=300)
    assert arrived(clean, 0) is clean
    with pytest.raises(InputError, match=r"arrives_days is 99, and the log has only 2[789] days"):
        arrived(clean, 99)


def test_nights_are_expected_from_the_first_day_of_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("QUEUECAST_NIGHTS_SINCE")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert first_night() == datetime.now(UTC).date()
    os.utime(dagster_home() / ".ready", (day := 1_770_163_200, day))
    assert first_night().isoformat() == "2026-02-04"
