"""What starts by itself: nights of traces that grow, and lines about nights that failed or drifted."""

import json
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from features.errors import InputError
from pipelines.assets.checks import holds
from pipelines.assets.sensors import alerts_file, drift, failed_nights, nightly_retraining
from pipelines.assets.stages import NIGHT_TAG, trace_stage, traces
from pipelines.definitions import defs
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.read import first_night, grows, remember
from pipelines.training.ledger import accounting_of, later_night
from tests.support.arriving import arriving

SACCT = "JobID|User|Submit|Start|End|State|Timelimit|ReqCPUS\n1|u|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:10:00|COMPLETED|01:00:00|2\n"
SWF = "1 0 0 100 2 -1 -1 2 200 -1 1 1 1 -1 -1 -1 -1 -1\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def remembered(place: Path, name: str, text: str, **options) -> str:
    (place / name).write_text(text)
    return remember(str(place / name), procs=8, **options)


def test_accounting_grows_and_nothing_else_does_unless_it_is_said(place: Path) -> None:
    zone = {"timezone": "UTC"}
    names = [
        remembered(place, "site.txt", SACCT, **zone),
        remembered(place, "month.txt", SACCT, grows=False, **zone),
        remembered(place, "old.swf", SWF),
        remembered(place, "live.swf", SWF, grows=True),
    ]
    catalogue = load_catalogue()
    assert [grows(catalogue[name]) for name in names] == [True, False, False, True]
    assert not grows(catalogue["generated"])
    assert not grows(catalogue["kth-sp2-1996-2.1-cln"])
    remember("month", grows=True)
    assert grows(load_catalogue()["month"])


@pytest.mark.slow
def test_the_schedule_asks_for_a_day_of_each_trace_that_grows_and_says_which_do_not(place: Path) -> None:
    two_in_the_morning = datetime(2026, 3, 1, 2, tzinfo=UTC)
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(instance, two_in_the_morning, repository_def=defs.get_repository_def())
        assert "no trace is known" in nightly_retraining.evaluate_tick(context).skip_message
        instance.add_dynamic_partitions("traces", ["generated"])
        assert "no trace that grows: generated" in nightly_retraining.evaluate_tick(context).skip_message
        instance.add_dynamic_partitions("traces", [remembered(place, f"{name}.txt", SACCT, timezone="UTC") for name in ("a", "b")])
        requests = nightly_retraining.evaluate_tick(context).run_requests
        assert requests is not None
        assert [(request.partition_key, request.tags[NIGHT_TAG]) for request in requests] == [
            ("a", "2026-03-01"),
            ("b", "2026-03-01"),
        ]
        assert [request.run_key for request in requests] == ["2026-03-01/a", "2026-03-01/b"]


def test_a_missed_day_is_a_partition_without_its_night(place: Path) -> None:
    night = defs.resolve_asset_graph().get(dg.AssetKey("night"))
    days = night.partitions_def.get_partitions_def_for_dimension("day")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["a"])
        keys = night.partitions_def.get_partition_keys(
            current_time=datetime(2023, 11, 4, 2, tzinfo=UTC), dynamic_partitions_store=instance
        )
    assert days.start.date() == first_night()
    assert [str(key) for key in keys][:4] == ["2023-11-01|a", "2023-11-02|a", "2023-11-03|a", "2023-11-04|a"]
    assert len(keys) == 4, "the day that has begun is due, and none after it"


def test_a_night_done_late_sees_what_had_ended_when_its_day_began(place: Path) -> None:
    clean = arriving(jobs=800)
    seen = accounting_of(clean, "2023-12-01")
    cut = int(datetime(2023, 12, 1, 2, tzinfo=UTC).timestamp()) - clean.origin_unix_s
    end = clean.jobs["submit_s"] + clean.jobs["wait_s"].astype("int64") + clean.jobs["runtime_s"]
    assert seen.jobs["job_id"].tolist() == clean.jobs["job_id"][end <= cut].tolist()
    assert 0 < len(seen.jobs) < len(clean.jobs)
    assert accounting_of(clean, "2026-01-01") is clean
    from dataclasses import replace

    undated = replace(clean, origin_unix_s=None)
    with pytest.raises(InputError, match="has no dates, so what had ended by 2023-12-01 is not known"):
        accounting_of(undated, "2023-12-01")
    assert accounting_of(undated, f"{datetime.now(UTC):%Y-%m-%d}") is undated


def lines() -> list[dict[str, str]]:
    from pipelines.lake.places import home

    file = alerts_file(home())
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@dg.asset(partitions_def=traces, check_specs=[dg.AssetCheckSpec("inputs_as_before", asset="drifting")])
def drifting(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Stands for a stage of a night that drifted, or failed."""
    if context.run.tags.get("fails"):
        raise dg.Failure("accounting.txt: no such file", allow_retries=False)
    drifted = holds("inputs_as_before", False, severity=dg.AssetCheckSeverity.WARN, drifted="users")
    return dg.MaterializeResult(check_results=[drifted])


@pytest.mark.slow
def test_drift_and_failed_nights_leave_a_line_each(place: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:  # definitions are read with the instance of this test, not with an earlier one
        job = dg.Definitions(assets=[drifting], jobs=[dg.define_asset_job("nightly", "*")]).resolve_job_def("nightly")
        instance.add_dynamic_partitions("traces", ["a"])

        def run(**tags: str) -> dg.ExecuteInProcessResult:
            return job.execute_in_process(partition_key="a", instance=instance, raise_on_error=False, tags=tags)

        def told_of(execution: dg.ExecuteInProcessResult, kind: dg.DagsterEventType, sensor) -> None:
            event = next(each for each in execution.all_events if each.event_type == kind)
            context = dg.build_run_status_sensor_context(sensor.name, event, instance, execution.dagster_run)
            sensor(context.for_run_failure() if sensor is failed_nights else context)

        told_of(run(**{NIGHT_TAG: "2026-03-01"}), dg.DagsterEventType.PIPELINE_SUCCESS, drift)
        told_of(run(**{NIGHT_TAG: "2026-03-02"}, fails="yes"), dg.DagsterEventType.PIPELINE_FAILURE, failed_nights)
        # a part of the job nightly that somebody started by hand is no night
        told_of(run(), dg.DagsterEventType.PIPELINE_SUCCESS, drift)
        told_of(run(fails="yes"), dg.DagsterEventType.PIPELINE_FAILURE, failed_nights)
    events = [{key: value for key, value in line.items() if key != "at"} for line in lines()]
    assert events[0] == {"kind": "drift", "subject": "a", "night": "2026-03-01", "what": "inputs_as_before: users"}
    assert len(events) == 2
    assert events[1]["what"].endswith("accounting.txt: no such file")
    assert (events[1]["kind"], events[1]["subject"], events[1]["night"]) == ("night failed", "a", "2026-03-02")


@pytest.mark.parametrize(
    ("night", "cause", "tries"), [(True, ConnectionError, 3), (True, ValueError, 1), (False, ConnectionError, 1)]
)
def test_only_nights_try_again_and_only_what_may_be_better_in_a_minute(
    place: Path, night: bool, cause: type[Exception], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def breaking(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        """Stands for a stage whose registry does not answer, or that has a defect."""
        tried.append(1)
        raise InputError("the registry") from cause("no answer")

    monkeypatch.setattr("pipelines.assets.stages.RETRY", dg.RetryPolicy(max_retries=2))
    asset = trace_stage(group_name="a", description="a", kinds=set())(breaking)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["a"])
        tags = {NIGHT_TAG: "2026-03-01"} if night else {}
        assert not dg.materialize([asset], partition_key="a", instance=instance, tags=tags, raise_on_error=False).success
    assert len(tried) == tries


def test_a_night_is_late_only_behind_a_later_one(tmp_path: Path) -> None:
    import pandas as pd

    from pipelines.lake.tables import Lake

    lake = Lake(tmp_path)
    assert later_night(lake, "a", "2026-03-01") == ""
    lake.write("nights", "a", pd.DataFrame({"night": ["2026-03-01", "2026-03-03"]}))
    assert [later_night(lake, "a", f"2026-03-0{day}") for day in (2, 3, 4)] == ["2026-03-03", "", ""]
    assert later_night(lake, "a", "") == "", "a run is not a night"
