"""A run that fails outside of its steps fails as a command: it says why, and not the results of before."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterInvalidInvocationError
from dagster._core.storage.defs_state.base import set_defs_state_storage

import pipelines.definitions
from features.errors import Damaged, InputError
from pipelines.assets.checks import broken
from pipelines.assets.stages import trace_stage, traces
from pipelines.cli import running
from pipelines.lake.instance import instance
from pipelines.lake.tables import Lake
from pipelines.training.run_settings import RunSettings


@dg.asset(partitions_def=traces)
def only() -> None:
    """Stands for the stages of a run."""


@dg.asset(partitions_def=traces, check_specs=[dg.AssetCheckSpec("sound", asset="first", blocking=True)])
def first() -> dg.MaterializeResult:
    """Fails a check that blocks."""
    return dg.MaterializeResult(check_results=[broken("sound", 3, rows=4)])


@dg.asset(partitions_def=traces, deps=[first])
def second() -> None:
    """Comes after it."""
    raise AssertionError("the check blocks")


@dg.asset(partitions_def=traces)
def refused() -> None:
    """Refuses its input."""
    raise Damaged("s3://bucket/site: is another") from OSError("pre-condition failed")


@trace_stage(group_name="jobs", description="Is interrupted by SIGTERM.", kinds=set())
def interrupted(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Receive SIGTERM, as from systemd, while it computes."""
    signal.raise_signal(signal.SIGTERM)
    raise AssertionError("the stage goes on")


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr("pipelines.cli.compiling.announce_compilation", lambda: None)
    with set_defs_state_storage(None):  # Dagster may still point to that of an earlier test's instance, which is gone
        yield


def run_of(monkeypatch: pytest.MonkeyPatch, *assets: Any) -> bool:
    """Run a job of these assets as the command does."""
    monkeypatch.setattr(pipelines.definitions, "defs", dg.Definitions(assets=assets, jobs=[dg.define_asset_job("full_run")]))
    monkeypatch.setattr("pipelines.assets.stages.applicable", lambda job, name: [each.key for each in assets])
    return running._materialise("full_run", "arriving", {})


def _fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the instance refuse what a run tells it before its first step."""
    handle = dg.DagsterInstance.handle_new_event

    def refused(instance: dg.DagsterInstance, event: dg.EventLogEntry, **given: Any) -> None:
        if event.dagster_event is not None and event.dagster_event.is_engine_event:
            if isinstance(error, DagsterInvalidInvocationError):
                instance.delete_dynamic_partition(str(traces.name), "arriving")
            raise error
        handle(instance, event, **given)

    monkeypatch.setattr(dg.DagsterInstance, "handle_new_event", refused)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left on device"), OSError),
        (ZeroDivisionError("of ours"), ZeroDivisionError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=[
        "a log that cannot be written",
        "a defect",
        "an interrupt",
    ],
)
def test_a_failure_between_steps_ends_the_command_as_what_it_is(
    error: BaseException, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    _fails(monkeypatch, error)
    with pytest.raises(raised):
        run_of(monkeypatch, only)


def test_sigterm_ends_a_run_without_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted.op, "_retry_policy", dg.RetryPolicy(max_retries=1))  # as RETRY, without a minute's wait
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_of(monkeypatch, interrupted)
    finally:
        signal.signal(signal.SIGTERM, before)
    with instance() as reopened:
        assert not [
            entry
            for entry in reopened.all_logs(reopened.get_runs()[0].run_id)
            if entry.dagster_event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY
        ]


@pytest.mark.slow
def test_a_run_that_does_not_fail_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_of(monkeypatch, only)


@pytest.mark.slow
def test_a_refusal_in_a_step_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Damaged, match=r"^s3://bucket/site: is another$"):
        run_of(monkeypatch, refused)


@pytest.mark.slow
def test_a_failed_check_blocks_what_comes_after_and_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_of(monkeypatch, first, second)
    assert ended.value.code == 1
    err = capsys.readouterr().err
    assert "check failed: first sound (broken 3, of 4)" in err
    assert "defect" not in err


def test_a_night_of_the_simulated_system_is_refused_at_once_without_its_accounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_materialise", lambda *_: pytest.fail("trains before it refuses"))
    with pytest.raises(InputError, match="queuecast run --trace simulated registers it"):
        running.run_pipeline(RunSettings(), "simulated", "2026-03-01")
    assert [*tmp_path.iterdir()] == []


def test_news_name_a_night_of_the_trace_that_was_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running.print_news(Lake(tmp_path / "lake"), "kth-sp2")
    assert "queuecast run --trace kth-sp2 --night" in capsys.readouterr().out
