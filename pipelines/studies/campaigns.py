"""Resumable campaigns: a journal of finished points beside the output.

When all points are done the results are written as Parquet, atomically, and the journal is removed. A suite, a TOML
file, names the traces and settings of a comparison that is pooled over traces.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.runtime.protocol import TablePredictor
from pipelines import code_version
from pipelines.lake.files import write_parquet
from pipelines.lake.places import made_folder, regular, writing
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.text import read_settings
from sim.campaigns.campaign import Progress, points, predictor_name, run_campaign
from sim.campaigns.maps import Map
from sim.campaigns.points import Point, Row
from sim.campaigns.windows import Windows
from sim.policy import Policy
from sim.settings import Campaign, Suite, TraceSettings

KIND = "campaign"
"""The kind of Parquet file that holds results."""


_ANEW = "give --restart to throw it away, or another --out"


class Journal:
    """The finished points of a campaign, a line of JSON each, so that it can resume.

    It lies beside the output. As a context it is open. ``done`` has the rows of finished points by trace and point. A
    process that dies loses no point, a power loss those of the last seconds. When all points are done, the results are
    written and the journal is removed.
    """

    def __init__(self, out: Path, identity: Mapping[str, Any], restart: bool = False) -> None:
        self.path = out.with_name(f"{out.name}.journal")
        self.done: dict[tuple[str, Point], Sequence[Row]] = {}
        with writing(self.path):
            made_folder(self.path.parent)
            self._file = regular(self.path).open("a+b")
        try:
            self._take_up(json.loads(json.dumps(dict(identity))), restart)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self.done:  # there is nothing to resume
            self.remove()
        self._file.close()

    def write(self, key: tuple[str, Point], rows: Sequence[Row]) -> None:
        """Record a point as done; a process that dies later does not lose it."""
        trace, point = key
        self._append([trace, point.window, point.policy._asdict(), list(rows)])
        self.done[key] = rows

    def remove(self) -> None:
        """Remove the journal of finished work."""
        self.path.unlink(missing_ok=True)

    def _append(self, record: Any) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def _take_up(self, identity: dict[str, Any], restart: bool) -> None:
        """Read the finished points; without any, or to ``restart``, begin anew."""
        self._file.seek(0)
        content = b"" if restart else self._file.read()
        whole = content.splitlines()[: content.count(b"\n") or 1]  # a process that died may have left half a line
        try:
            theirs, *points = [json.loads(line) for line in whole] or [{}]
            done = {(trace, Point(window, Policy(**policy))): rows for trace, window, policy, rows in points}
        except (ValueError, TypeError) as error:
            raise InputError(f"{self.path}: is not the journal of a campaign; {_ANEW}") from error
        if not isinstance(theirs, dict) or (theirs and "version" not in theirs):  # a foreign file stays
            raise InputError(f"{self.path}: is not the journal of a campaign; {_ANEW}")
        if not done:
            self._file.truncate(0)
            self._append(identity)
            return
        if names := [name for name in {**identity, **theirs} if identity.get(name) != theirs.get(name)]:
            raise InputError(f"{self.path}: is the journal of another campaign (it differs in {', '.join(names)}); {_ANEW}")
        self._file.truncate(sum(len(line) + 1 for line in whole))
        self.done = done


class Run(NamedTuple):
    """A campaign on one trace, with fitted predictors."""

    workload: CleanTrace
    campaign: Campaign
    windows: Windows

    @property
    def label(self) -> str:
        """Return the trace's name in the results."""
        return self.campaign.submissions.label(self.workload.name)


def resumable_campaign(
    out: Path,
    runs: Sequence[Run],
    *,
    restart: bool = False,
    map_points: Map | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Run campaigns, or the rest after an interruption; write and return the results.

    ``runs`` has one run, or for a suite one per trace and load. Raises InputError for two traces with the same name,
    for a journal of another campaign, unless ``restart`` discards it, and as
    :func:`sim.campaigns.campaign.run_campaign`.
    """
    twice = [label for label, times in Counter(run.label for run in runs).items() if times > 1]
    if twice:
        raise InputError(f"a suite takes each trace once, and two are called {twice[0]}")
    identities = [identity(*run) for run in runs]
    shared = identities[0] if len(runs) == 1 else {"version": code_version(), "campaigns": identities}
    total = sum(len(points(run.campaign, run.windows)) for run in runs)
    tables: list[pd.DataFrame] = []
    with Journal(out, shared, restart) as journal:
        for run in runs:
            before = sum(len(table) for table in tables) // len(run.campaign.taus_s)
            done = {point: rows for (label, point), rows in journal.done.items() if label == run.label}
            tables.append(
                run_campaign(
                    run.workload.jobs,
                    run.campaign,
                    procs=run.workload.procs,
                    windows=run.windows,
                    trace=run.workload.name,
                    generated=run.workload.generated,
                    clock=run.workload.clock,
                    machine=run.workload.machine,
                    map_points=map_points,
                    done=done,
                    finished=partial(_finished, journal, run.label),
                    progress=None if progress is None else partial(_further, progress, before, total),
                )
            )
        table = pd.concat(tables, ignore_index=True)
        left_out = [
            {"dropped": run.windows.counts(), "drop_basis": run.windows.basis, "empty_windows": list(run.windows.empty)}
            for run in runs
        ]
        exclusions = left_out[0] if len(runs) == 1 else {"left_out": left_out}
        write_parquet(table, out, kind=KIND, metadata={**shared, **exclusions})
        journal.remove()
    return table


def _finished(journal: Journal, trace: str, point: Point, rows: Sequence[Row]) -> None:
    journal.write((trace, point), rows)


def _further(progress: Progress, before: int, total: int, count: int, _of_trace: int) -> None:
    progress(before + count, total)


def identity(workload: CleanTrace, campaign: Campaign, windows: Windows) -> dict[str, Any]:
    """Return what identifies a campaign, as JSON: jobs, settings, fitted predictions, code."""
    predictions = {
        source.name: hashlib.sha256(np.asarray(source.estimate(workload.jobs), np.float64).tobytes()).hexdigest()[:16]
        for source in campaign.predictors
        if isinstance(source, TablePredictor)
    }
    named = campaign.model_copy(update={"predictors": tuple(map(predictor_name, campaign.predictors)), "seeds": campaign.drawn})
    # the jobs, the machine and the windows themselves identify these settings
    excluded = {*TraceSettings.model_fields, "machine", "windows", "keep_first", "drop_rule", "replicates"}
    return {
        "version": code_version(),
        "trace": workload.name,
        "generated": workload.generated,
        "jobs": fingerprint(workload.jobs),
        "procs": workload.procs,
        "machine": workload.machine and workload.machine.record,
        "clock": list(workload.clock),
        "windows": windows.split,
        "skip_first": windows.skip_first,
        "drop": windows.drop,
        **named.model_dump(mode="json", exclude=excluded),
        "predictions": predictions,
    }


FOLDER = Path(__file__).parent


def suite_of(name: str, replaced: dict[str, Any]) -> Suite:
    """Return a suite by name or from a file; ``replaced`` settings take the place of its own.

    Paths of traces are relative to the file. Raises InputError for an unknown suite, bad TOML or settings, and traces
    not fetched.
    """
    built_in = FOLDER / f"suite-{name}.toml"
    path = built_in if built_in.is_file() else Path(name)
    if not path.is_file():
        raise InputError(f"no suite {name}: known are classic and modern, or give a TOML file")
    try:
        settings = read_settings(path, "suite")
        traces = settings.get("traces", [])
        if not isinstance(traces, list):
            raise InputError("traces must be a list")
        # files are named relative to the suite's own; what is no file beside it is a name or an address
        beside = [
            str(path.parent / trace) if isinstance(trace, str) and (path.parent / trace).is_file() else trace for trace in traces
        ]
        suite = Suite(**settings | {"traces": beside} | replaced)
    except InputError as error:
        raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    entries = [entry for trace in suite.traces if (entry := load_catalogue().get(trace)) is not None]
    if absent := [entry.name for entry in entries if entry.remote and not entry.path.exists()]:
        raise InputError(f"{name}: not fetched yet: run {', '.join(f'`queuecast fetch {trace}`' for trace in absent)}")
    return suite
