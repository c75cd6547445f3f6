"""Resumable campaigns: a journal of finished points beside the output.

The journal is JSON, a line a point, written as points are finished; its first line identifies the campaign. A process that dies
loses no point, a power loss those of the last seconds. When all points are done the results are written as Parquet, atomically, and
the journal is removed, so a finished output has none.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.registry.syncing import sync
from models.runtime.protocol import TablePredictor
from pipelines.storage.atomic import made_folder
from pipelines.storage.parquet import write_parquet
from pipelines.storage.provenance import code_version
from sim.campaigns.campaign import Campaign, Map, Progress, predictor_name, run_campaign
from sim.campaigns.points import Point, Row
from sim.campaigns.windows import Windows
from sim.machine.description import Machine
from sim.policy import Policy

KIND = "campaign"
"""The kind of Parquet file that holds results."""

_SYNC_S = 2.0
"""Max seconds of finished points that a power loss costs."""
_HEAD = b'{"campaign": '
"""First bytes of a journal."""


def resumable_campaign(
    out: Path,
    workload: CleanTrace,
    campaign: Campaign,
    windows: Windows,
    *,
    machine: Machine | None = None,
    restart: bool = False,
    map_points: Map | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Run ``campaign``, or the rest of an interrupted run; write and return the results.

    Raises InputError for a journal of another campaign, unless ``restart`` discards it, and as
    :func:`sim.campaigns.campaign.run_campaign`.
    """
    stated = identity(workload, campaign, windows, machine)
    with Journal(out, stated, restart) as journal:
        table = run_campaign(
            workload.jobs,
            campaign,
            procs=workload.procs,
            windows=windows,
            trace=workload.name,
            generated=workload.generated,
            clock=workload.clock,
            machine=machine,
            map_points=map_points,
            done=dict(journal.done),
            finished=journal.write,
            progress=progress,
        )
        found = {"dropped": windows.counts(), "drop_basis": windows.basis, "empty_windows": list(windows.empty)}
        units = {str(name): "s" for name in table if str(name).endswith("_s")}
        write_parquet(table, out, kind=KIND, metadata={**stated, **found}, units=units)
        journal.remove()
    return table


def identity(workload: CleanTrace, campaign: Campaign, windows: Windows, machine: Machine | None = None) -> dict[str, Any]:
    """Return what identifies a campaign, as JSON: jobs, settings, fitted predictions, code."""
    predictions = {
        source.name: hashlib.sha256(np.asarray(source.estimate(workload.jobs), np.float64).tobytes()).hexdigest()[:16]
        for source in campaign.predictors
        if isinstance(source, TablePredictor)
    }
    asked = {name: list(values) if isinstance(values, tuple) else values for name, values in vars(campaign).items()}
    return {
        "version": code_version(),
        "trace": workload.name,
        "generated": workload.generated,
        "jobs": fingerprint(workload.jobs),
        "procs": workload.procs,
        "machine": None if machine is None else json.loads(json.dumps(asdict(machine))),
        "clock": list(workload.clock),
        "windows": windows.split,
        "skip_first": windows.skip_first,
        "drop": windows.drop,
        **asked,
        "predictors": [predictor_name(each) for each in campaign.predictors],
        "predictions": predictions,
    }


class Journal:
    """The journal beside ``out``, open and locked as a context.

    ``done`` holds the rows of the points in it.
    """

    def __init__(self, out: Path, identity: Mapping[str, Any], restart: bool = False) -> None:
        self.path = out.with_name(f"{out.name}.journal")
        self.done: dict[Point, Sequence[Row]] = {}
        self._identity, self._synced = dict(identity), -_SYNC_S
        try:
            made_folder(self.path.parent)
            self._file = self.path.open("a+b")
            sync(self.path.parent)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from error
        try:
            self._lock()
            self._take_up(restart)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self.done:
            self.path.unlink(missing_ok=True)  # there is nothing to resume
        self._file.close()

    def write(self, point: Point, rows: Sequence[Row]) -> None:
        """Record ``point`` as done; a process that dies later does not lose it."""
        self._append(json.dumps({"window": point.window, "policy": point.policy._asdict(), "rows": list(rows)}).encode() + b"\n")
        self.done[point] = rows

    def remove(self) -> None:
        """Remove the journal of a finished campaign."""
        self.path.unlink(missing_ok=True)

    def _append(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            if time.monotonic() - self._synced >= _SYNC_S:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from error

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{self.path}: another process is running this campaign") from error

    def _take_up(self, restart: bool) -> None:
        """Read what is done, cut off a half-written line; start anew where there is nothing."""
        self._file.seek(0)
        content = self._file.read()
        first = _HEAD + json.dumps(self._identity).encode() + b"}\n"
        not_begun = content.count(b"\n") <= 1 and (content.startswith(_HEAD) or _HEAD.startswith(content))
        if restart or not_begun:  # no point of it is done
            self._file.truncate(0)
            self._append(first)
            return
        if not content.startswith(first):
            raise InputError(f"{self.path}: {self._difference(content)}; give --restart to throw it away, or another --out")
        whole = content[: content.rindex(b"\n") + 1]
        self._file.truncate(len(whole))
        for number, line in enumerate(whole.splitlines()[1:], 2):
            try:
                record = json.loads(line)
                self.done[Point(record["window"], Policy(**record["policy"]))] = record["rows"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{self.path}, line {number}: is damaged; give --restart to begin anew") from error

    def _difference(self, content: bytes) -> str:
        """Return why a journal is another campaign's, by the names of what differs."""
        try:
            theirs = json.loads(content.split(b"\n", 1)[0])["campaign"]
            names = [name for name in dict.fromkeys([*self._identity, *theirs]) if self._identity.get(name) != theirs.get(name)]
        except (ValueError, KeyError, TypeError, AttributeError):
            return "is not the journal of a campaign"
        return f"is the journal of another campaign (of other {', '.join(names)})"
