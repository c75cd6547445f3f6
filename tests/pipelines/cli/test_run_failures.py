"""A run that fails outside of its steps fails as a command: it says why, and not the results of before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterInvalidInvocationError
from dagster._core.storage.defs_state.base import set_defs_state_storage

import pipelines.definitions
from features import InputError
from pipelines.assets.partitions import of_traces
from pipelines.cli import run

NO_ROOM = "[Errno 28] No space left on device"


@dg.asset(partitions_def=of_traces)
def only() -> None:
    """Stands for the stages of a run."""


@pytest.fixture
def _one_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    made = dg.Definitions(assets=[only], jobs=[dg.define_asset_job("full_run")])
    monkeypatch.setattr(pipelines.definitions, "defs", made)
    monkeypatch.setattr("pipelines.cli.compiling.announce_compilation", lambda: None)
    with set_defs_state_storage(None):  # Dagster may still point to that of an earlier test's instance, which is gone
        yield


def _fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the instance refuse what a run tells it before its first step."""
    told = dg.DagsterInstance.handle_new_event

    def refused(instance: dg.DagsterInstance, event: dg.EventLogEntry, **given: Any) -> None:
        if event.dagster_event is not None and event.dagster_event.is_engine_event:
            raise error
        told(instance, event, **given)

    monkeypatch.setattr(dg.DagsterInstance, "handle_new_event", refused)


@pytest.mark.slow
@pytest.mark.usefixtures("_one_stage")
def test_a_run_whose_log_cannot_be_written_between_steps_ends_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run._materialise("full_run", "arriving", {})
    _fails(monkeypatch, OSError(NO_ROOM))
    with pytest.raises(SystemExit) as ended:
        run._materialise("full_run", "arriving", {})
    assert ended.value.code == 1
    assert "queuecast: no room is left on the disk" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("_one_stage")
def test_an_unknown_failure_between_steps_is_told_as_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fails(monkeypatch, ZeroDivisionError("of ours"))
    with pytest.raises(SystemExit) as ended:
        run._materialise("full_run", "arriving", {})
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError: of ours" in said
    assert "failed in no stage, but between them; a defect" in said


@pytest.mark.slow
@pytest.mark.usefixtures("_one_stage")
def test_a_trace_that_is_forgotten_while_it_runs_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = dg.StaticPartitionsDefinition(["here"])
    with pytest.raises(DagsterInvalidInvocationError) as gone:
        partitions.get_partition_keys_in_range(dg.PartitionKeyRange("gone", "gone"))
    _fails(monkeypatch, gone.value)
    with pytest.raises(InputError, match="is not a trace that was run any more"):
        run._materialise("full_run", "arriving", {})


@pytest.mark.slow
@pytest.mark.usefixtures("_one_stage")
def test_an_interrupt_between_steps_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _fails(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run._materialise("full_run", "arriving", {})
