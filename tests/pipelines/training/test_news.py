"""The default log arrives day by day: its schedule's night has new jobs, trains, decides and publishes, until the log has ended."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.schema import fingerprint
from models.registry.versions import aliases
from pipelines.assets.partitions import applicable
from pipelines.assets.sensors import nightly_retraining
from pipelines.definitions import defs
from pipelines.lake.instance import dagster_home
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.traces import first_night, read_known
from pipelines.training.ledger import days_to_come
from pipelines.training.replay import arrived, replay
from pipelines.training.run_settings import FIRST
from tests.support.arriving import arriving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn_pictures", "quick_methods")]
SUBJECT, WEEK = f"runtime-{FIRST.trace}", {"runtime_model": {"config": {"until": "1997-07-24", "warm_up_weeks": 1}}}
LESS = {"schedules": {"config": {"schedulers": ["EASY"], "predictors": ["requested"]}}}


class Default:
    """A home of the default trace, and an instance of Dagster with its schedule."""

    def __init__(self, place: Path, instance: dg.DagsterInstance) -> None:
        self.lake, self.instance = Lake(place / "lake"), instance
        instance.add_dynamic_partitions("traces", [FIRST.trace])

    def run(self, *only: str) -> object:
        """Do a run, or ``only`` some assets of it, and return the fingerprint of the jobs that it has seen."""
        job = defs.resolve_job_def("full_run")
        assets = [dg.AssetKey(name) for name in only] or applicable(job, FIRST.trace)
        self.execute(job, assets, {}, {} if only else LESS | WEEK)
        event = self.instance.get_latest_materialization_event(dg.AssetKey("jobs"))
        assert event is not None
        assert event.asset_materialization is not None
        return event.asset_materialization.metadata["fingerprint"].value

    def execute(self, job: dg.JobDefinition, assets: list[dg.AssetKey], tags: dict[str, str], ops: dict) -> None:
        silent = {"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        done = job.execute_in_process(
            partition_key=FIRST.trace, instance=self.instance, run_config=silent, asset_selection=assets, tags=tags
        )
        assert done.success

    def tick(self, day: int) -> dg.SensorResult:
        at = datetime(2026, 3, day, 2, tzinfo=UTC)
        context = dg.build_schedule_context(self.instance, at, repository_def=defs.get_repository_def())
        return nightly_retraining.evaluate_tick(context)

    def night(self, day: int) -> pd.Series:
        """Do the night that the schedule asks for on a day, and return its row."""
        [request] = self.tick(day).run_requests
        assert request.partition_key == FIRST.trace
        self.execute(defs.resolve_job_def("nightly"), request.asset_selection, request.tags, LESS)
        return self.lake.read("nights", FIRST.trace)[0].iloc[-1]


def shortened(place: Path, jobs: int = 4_000) -> None:
    """Put the last ``jobs`` of the shipped log in the place of the whole, as training on the others takes time."""
    entry = load_catalogue()[FIRST.trace]
    lines = gzip.decompress(entry.path.read_bytes()).decode().splitlines()
    head = [line for line in lines if line.startswith(";")]
    (place / "short.swf").write_text("\n".join([*head, *lines[-jobs:]]))
    rule = f"procs = {entry.procs}\narrives_days = {entry.arrives_days}\n"
    (place / "queuecast.toml").write_text(f'[traces.{FIRST.trace}]\nplace = "short.swf"\n{rule}')


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Default]:
    place = tmp_path_factory.mktemp("news")
    with pytest.MonkeyPatch.context() as patch, dg.instance_for_test() as instance:
        patch.setenv("QUEUECAST_HOME", str(place))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr("models.registry.tracking._SITE", None)
        patch.chdir(place)
        shortened(place)
        yield Default(place, instance)


@pytest.mark.thorough
def test_a_night_of_the_default_has_news_and_decides_with_numbers(default: Default) -> None:
    first = default.run()
    whole = replay(read_known(FIRST.trace))
    days = load_catalogue()[FIRST.trace].arrives_days
    seen = [whole.accounting(whole.midnights[-1 - days + night]).jobs for night in (0, 1)]
    assert first == fingerprint(seen[0])
    before = aliases(tracking(), SUBJECT)["champion"]

    row = default.night(1)
    assert row["fingerprint"] == fingerprint(seen[1])
    assert row["new_jobs"] == len(seen[1]) - len(seen[0]) > 0
    assert int(aliases(tracking(), SUBJECT)["champion"]) > int(before), "promoted, or refreshed with the day's histories"
    assert row["champion_before"] == before
    assert row["judged_jobs"] > 0
    assert "accuracy as served 0." in row["why"]
    assert default.instance.get_materialized_partitions(dg.AssetKey("night")) == {f"2026-03-01|{FIRST.trace}"}
    assert default.run("jobs") == row["fingerprint"], "a run brings no day"


def test_a_log_that_has_ended_has_no_night(default: Default, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    nights = [f"2026-02-{day:02d}" for day in range(1, load_catalogue()[FIRST.trace].arrives_days + 1)]
    lake, entry = Lake(tmp_path / "lake"), load_catalogue()[FIRST.trace]
    lake.write("nights", FIRST.trace, pd.DataFrame({"night": nights[:-1]}))
    assert default.tick(1).run_requests
    assert [days_to_come(lake, entry, night) for night in ("", nights[-2], nights[-1])] == [1, 1, 0], (
        "a night done again brings no other day"
    )
    lake.write("nights", FIRST.trace, pd.DataFrame({"night": nights}))
    assert default.tick(1).skip_message == f"the log has ended, all its days have arrived: {FIRST.trace}"


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
