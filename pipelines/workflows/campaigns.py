"""Resumable campaigns: a journal of finished points beside the output.

When all points are done the results are written as Parquet, atomically, and the journal is removed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.runtime.protocol import TablePredictor
from pipelines.storage.journal import Journal, Kind
from pipelines.storage.parquet import write_parquet
from pipelines.storage.provenance import code_version
from sim.campaigns.campaign import Progress, predictor_name, run_campaign
from sim.campaigns.maps import Map
from sim.campaigns.points import Point, Row
from sim.campaigns.windows import Windows
from sim.machine.description import Machine
from sim.policy import Policy
from sim.settings import Campaign, TraceSettings

KIND = "campaign"
"""The kind of Parquet file that holds results."""


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
    with journal_of(out, stated, restart) as journal:
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
    named = campaign.model_copy(update={"predictors": tuple(map(predictor_name, campaign.predictors)), "seeds": campaign.drawn})
    # the trace, its machine and its windows are told by what they came to
    told = {*TraceSettings.model_fields, "machine", "windows", "keep_first", "drop_rule", "replicates"}
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
        **named.model_dump(mode="json", exclude=told),
        "predictions": predictions,
    }


def _encoded(point: Point, rows: Sequence[Row]) -> dict[str, Any]:
    return {"window": point.window, "policy": point.policy._asdict(), "rows": list(rows)}


def _decoded(record: dict[str, Any]) -> tuple[Point, Sequence[Row]]:
    return Point(record["window"], Policy(**record["policy"])), record["rows"]


_POINTS = Kind("campaign", _encoded, _decoded)


def journal_of(out: Path, identity: Mapping[str, Any], restart: bool = False) -> Journal[Point, Sequence[Row]]:
    """Return the journal of a campaign beside ``out``; it holds the rows of finished points."""
    return Journal(out, _POINTS, identity, restart)
