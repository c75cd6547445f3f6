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
from pipelines.assets.partitions import traces
from pipelines.cli import run

NO_ROOM = "[Errno 28] No space left on device"


@dg.asset(partitions_def=traces)
def only() -> None:
    """Stands for the stages of a run."""


@pytest.fixture
def _one_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    definitions = dg.Definitions(assets=[only], jobs=[dg.define_asset_job("full_run")])
    monkeypatch.setattr(pipelines.definitions, "defs", definitions)
    monkeypatch.setattr("pipelines.assets.applicable.applicable", lambda job, name: [dg.AssetKey("only")])
    monkeypatch.setattr("pipelines.cli.compiling.announce_compilation", lambda: None)
    with set_defs_state_storage(None):  # Dagster may still point to that of an earlier test's instance, which is gone
        yield


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


def _forgotten() -> BaseException:
    """Return what Dagster raises about a partition that was there when the run began."""
    partitions = dg.StaticPartitionsDefinition(["here"])
    with pytest.raises(DagsterInvalidInvocationError) as gone:
        partitions.get_partition_keys_in_range(dg.PartitionKeyRange("gone", "gone"))
    return gone.value


@pytest.mark.slow
@pytest.mark.usefixtures("_one_stage")
@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (OSError(NO_ROOM), SystemExit, ["queuecast: OSError: [Errno 28] No space left on device"]),
        (PermissionError(13, "Permission denied", "/site/mlartifacts"), SystemExit, ["Permission denied: '/site/mlartifacts'"]),
        (
            ZeroDivisionError("of ours"),
            SystemExit,
            ["ZeroDivisionError: of ours", "failed in no stage, but between them; a defect"],
        ),
        (_forgotten(), InputError, ["was forgotten by another process"]),
        (KeyboardInterrupt(), KeyboardInterrupt, []),
    ],
    ids=[
        "a log that cannot be written",
        "a file of another user",
        "a defect",
        "a trace that is forgotten while it runs",
        "an interrupt",
    ],
)
def test_a_failure_between_steps_is_told_as_what_it_is(
    error: BaseException,
    raised: type[BaseException],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _fails(monkeypatch, error)
    with pytest.raises(raised) as ended:
        run._materialise("full_run", "arriving", {})
    text = f"{ended.value} {capsys.readouterr().err}"
    assert all(each in text for each in words)
    assert not isinstance(ended.value, SystemExit) or ended.value.code == 1


@pytest.mark.slow
@pytest.mark.usefixtures("_one_stage")
def test_a_run_that_does_not_fail_succeeds() -> None:
    assert run._materialise("full_run", "arriving", {})
