"""What starts by itself: nights of traces that grow, runs of files that were replaced, and lines about nights that failed or drifted."""

import errno
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml

from features.errors import InputError
from pipelines.assets.checks import holds
from pipelines.assets.nights import RETRIES, RETRY_S, stage
from pipelines.assets.partitions import is_night, of_traces, trace_on
from pipelines.assets.resources import LakeResource
from pipelines.assets.sensors import changed_traces, drift, failed_nights, nightly_retraining
from pipelines.dated.ledger import later_night
from pipelines.dated.replay import accounting_of
from pipelines.definitions import defs
from pipelines.sources.catalogue import load_catalogue
from pipelines.sources.traces import first_night, grows, remember
from pipelines.storage.alerts import alerts_file
from pipelines.storage.instance import dagster_home
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
        assert "no trace grows: generated" in nightly_retraining.evaluate_tick(context).skip_message
        instance.add_dynamic_partitions("traces", [remembered(place, f"{name}.txt", SACCT, timezone="UTC") for name in ("a", "b")])
        requests = nightly_retraining.evaluate_tick(context).run_requests
        assert requests is not None
        assert [str(request.partition_key) for request in requests] == ["2026-03-01|a", "2026-03-01|b"]
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


def test_nights_are_expected_from_when_the_first_trace_was_remembered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEUECAST_NIGHTS_SINCE")
    assert first_night() == datetime.now(UTC).date()
    (place / "queuecast.toml").write_text('[traces.site]\nplace = "site.txt"\nsince = "2026-02-03"\n')
    assert first_night().isoformat() == "2026-02-03"
    (place / "queuecast.toml").write_text('[traces.site]\nplace = "site.txt"\nsince = "spring"\n')
    with pytest.raises(InputError, match="since must be a date such as 2026-03-01, not 'spring'"):
        load_catalogue()
    monkeypatch.setenv("QUEUECAST_NIGHTS_SINCE", "spring")
    with pytest.raises(InputError, match="NIGHTS_SINCE is 'spring', and must be a date"):
        first_night()


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


def test_a_file_that_was_replaced_and_is_whole_starts_one_run(place: Path) -> None:
    name = remembered(place, "old.swf", SWF)
    remembered(place, "site.txt", SACCT, timezone="UTC")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", [name, "site", "generated"])
        cursor = None

        def tick() -> list[str]:
            nonlocal cursor
            context = dg.build_sensor_context(instance, cursor=cursor, repository_def=defs.get_repository_def())
            outcome = changed_traces(context)
            cursor = outcome.cursor
            return [str(request.partition_key) for request in outcome.run_requests or ()]

        assert tick() == tick() == []
        (place / "old.swf").write_text(SWF * 2)
        (place / "site.txt").write_text(SACCT * 2)
        assert tick() == [], "it may still be being written"
        assert tick() == [trace_on("old")]
        assert tick() == tick() == []
        os.utime(place / "old.swf", ns=(1, 1))
        assert [tick(), tick(), tick()] == [[], [trace_on("old")], []]


def lines() -> list[dict[str, str]]:
    from pipelines.storage.home import home

    file = alerts_file(home())
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@dg.asset(name="night", partitions_def=of_traces, check_specs=[dg.AssetCheckSpec("inputs_as_before", asset="night")])
def drifting(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Stands for a night that drifted, or failed."""
    if "2026-03-02" in context.partition_key:
        raise dg.Failure("accounting.txt: no such file", allow_retries=False)
    drifted = holds("inputs_as_before", False, severity=dg.AssetCheckSeverity.WARN, drifted="users")
    return dg.MaterializeResult(check_results=[drifted])


@pytest.mark.slow
def test_drift_and_failed_nights_leave_a_line_each(place: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:  # definitions are read with the instance of this test, not with an earlier one
        job = dg.Definitions(assets=[drifting], jobs=[dg.define_asset_job("nightly", "*")]).resolve_job_def("nightly")
        instance.add_dynamic_partitions("traces", ["a"])

        def night(day: str) -> dg.ExecuteInProcessResult:
            key = dg.MultiPartitionKey({"day": day, "trace": "a"})
            return job.execute_in_process(partition_key=key, instance=instance, raise_on_error=False)

        def told_of(execution: dg.ExecuteInProcessResult, kind: dg.DagsterEventType, sensor) -> None:
            event = next(each for each in execution.all_events if each.event_type == kind)
            context = dg.build_run_status_sensor_context(sensor.name, event, instance, execution.dagster_run)
            sensor(context.for_run_failure() if sensor is failed_nights else context)

        told_of(night("2026-03-01"), dg.DagsterEventType.PIPELINE_SUCCESS, drift)
        told_of(night("2026-03-02"), dg.DagsterEventType.PIPELINE_FAILURE, failed_nights)
    events = [{key: value for key, value in line.items() if key != "at"} for line in lines()]
    assert events[0] == {"kind": "drift", "subject": "a", "night": "2026-03-01", "what": "inputs_as_before: users"}
    assert len(events) == 2
    assert events[1]["what"].endswith("accounting.txt: no such file")
    assert (events[1]["kind"], events[1]["subject"], events[1]["night"]) == ("night failed", "a", "2026-03-02")


def wrapped(error: OSError) -> InputError:
    """Return the error as readers and writers of the lake tell it."""
    refusal = InputError(f"a.parquet: {error.strerror}")
    refusal.__cause__ = error
    return refusal


def tried(job: str, errors: list[Exception], monkeypatch: pytest.MonkeyPatch) -> tuple[bool, list[str]]:
    """Do a job whose one stage raises ``errors``, one each time; return whether it succeeded, and the night of each time."""
    nights = []

    @dg.asset(partitions_def=of_traces)
    @stage("trying")
    def breaking(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
        nights.append(lake.night)
        if len(nights) <= len(errors):
            raise errors[len(nights) - 1]
        return dg.MaterializeResult()

    monkeypatch.setattr("pipelines.assets.nights.RETRY_S", 0)
    given = {"assets": [breaking], "jobs": [dg.define_asset_job(job, "*")], "resources": {"lake": LakeResource()}}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["a"])
        job_def = dg.Definitions(**given).resolve_job_def(job)
        key = trace_on("a", "2023-11-02")
        return job_def.execute_in_process(partition_key=key, instance=instance, raise_on_error=False).success, nights


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (OSError("the registry is away"), True),
        (wrapped(OSError(errno.ESTALE, "Stale file handle")), True),
        (wrapped(FileNotFoundError(errno.ENOENT, "No such file")), False),
        (InputError("accounting is missing"), False),
    ],
)
@pytest.mark.parametrize("job", ["nightly", "full_run"])
def test_only_nights_try_again_and_only_what_may_be_better_in_a_minute(
    place: Path, error: Exception, again: bool, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = job == "nightly"
    expected = (["2023-11-02"] if night else [""]) * (1 + RETRIES * (night and again))
    assert tried(job, [error] * (1 + RETRIES), monkeypatch) == (False, expected)
    line = place / "home" / "reports" / "nights" / "a" / "2023-11-02.failed.txt"
    assert line.exists() == night
    if night:
        assert line.read_text().startswith(f"night 2023-11-02 of a, while trying: {error}")
    assert RETRY_S == 60


def test_a_night_that_succeeds_when_tried_again_leaves_no_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried("nightly", [OSError("the registry is away")], monkeypatch) == (True, ["2023-11-02"] * 2)
    assert not [*(place / "home").rglob("*.failed.txt")]


def test_a_night_is_known_by_what_it_makes() -> None:
    def run(job: str, *chosen: str) -> dg.DagsterRun:
        return dg.DagsterRun(job, asset_selection=frozenset(map(dg.AssetKey, chosen)) or None)

    assert [is_night(run(job)) for job in ("nightly", "nightly_variability", "full_run", "variability")] == [
        True,
        True,
        False,
        False,
    ]
    assert is_night(run("__ASSET_JOB", "jobs", "night"))
    assert not is_night(run("__ASSET_JOB", "jobs", "published_trace"))
    assert not is_night(run("nightly", "jobs"))


def test_two_nights_of_a_trace_wait_for_each_other(place: Path) -> None:
    settings = yaml.safe_load((dagster_home() / "dagster.yaml").read_text())
    limits = settings["concurrency"]["runs"]["tag_concurrency_limits"]
    one = {"value": {"applyLimitPerUniqueValue": True}, "limit": 1}
    assert limits == [{"key": f"dagster/partition/{subject}", **one} for subject in ("trace", "system")]
    with dg.DagsterInstance.get() as instance:
        assert instance.get_concurrency_config().run_queue_config.tag_concurrency_limits == limits


def test_a_night_is_late_only_behind_a_later_one(tmp_path: Path) -> None:
    import pandas as pd

    from pipelines.storage.lake import Lake

    lake = Lake(tmp_path)
    assert later_night(lake, "runtime-a", "2026-03-01") == ""
    lake.write("nights", "a", pd.DataFrame({"night": ["2026-03-01", "2026-03-03"]}))
    assert [later_night(lake, "runtime-a", f"2026-03-0{day}") for day in (2, 3, 4)] == ["2026-03-03", "", ""]
    assert later_night(lake, "variability-a", "2026-03-01") == ""
