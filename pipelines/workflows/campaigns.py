"""Resumable campaigns: a journal of finished points beside the output.

When all points are done the results are written as Parquet, atomically, and the journal is removed.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.runtime.protocol import TablePredictor
from pipelines.storage.journal import Journal, JournalKind
from pipelines.storage.parquet import write_parquet
from pipelines.storage.provenance import code_version
from sim.campaigns.campaign import Progress, points, predictor_name, run_campaign
from sim.campaigns.maps import Map
from sim.campaigns.points import Point, Row
from sim.campaigns.windows import Windows
from sim.policy import Policy
from sim.settings import Campaign, TraceSettings

KIND = "campaign"
"""The kind of Parquet file that holds results."""


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

    ``runs`` has one run, or for a suite one per trace and load. Raises InputError for two traces with the same name, for a
    journal of another campaign, unless ``restart`` discards it, and as :func:`sim.campaigns.campaign.run_campaign`.
    """
    twice = [label for label, times in Counter(run.label for run in runs).items() if times > 1]
    if twice:
        raise InputError(f"a suite takes each trace once, and two are called {twice[0]}")
    identities = [identity(*run) for run in runs]
    shared = identities[0] if len(runs) == 1 else {"version": code_version(), "campaigns": identities}
    total = sum(len(points(run.campaign, run.windows)) for run in runs)
    tables: list[pd.DataFrame] = []
    with journal_of(out, shared, restart) as journal:
        for run in runs:
            before = sum(len(each) for each in tables) // len(run.campaign.taus_s)
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
        units = {str(name): "s" for name in table if str(name).endswith("_s")}
        exclusions = left_out[0] if len(runs) == 1 else {"left_out": left_out}
        write_parquet(table, out, kind=KIND, metadata={**shared, **exclusions}, units=units)
        journal.remove()
    return table


def _finished(journal: Journal[tuple[str, Point], Sequence[Row]], trace: str, point: Point, rows: Sequence[Row]) -> None:
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


def _encoded(key: tuple[str, Point], rows: Sequence[Row]) -> dict[str, Any]:
    trace, point = key
    return {"trace": trace, "window": point.window, "policy": point.policy._asdict(), "rows": list(rows)}


def _decoded(record: dict[str, Any]) -> tuple[tuple[str, Point], Sequence[Row]]:
    return (record["trace"], Point(record["window"], Policy(**record["policy"]))), record["rows"]


_POINTS = JournalKind("campaign", _encoded, _decoded)


def journal_of(out: Path, identity: Mapping[str, Any], restart: bool = False) -> Journal[tuple[str, Point], Sequence[Row]]:
    """Return the journal beside ``out``: rows of finished points, by trace and point."""
    return Journal(out, _POINTS, identity, restart)
