"""The mark of a system's night: its row in the table of nights, with what was decided."""

from typing import Any

import dagster as dg
import pandas as pd

from models.registry.variability_registration import VARIABILITY
from pipelines.assets.checks import holds
from pipelines.assets.counters import NEW_FILES
from pipelines.assets.nights import system_stage
from pipelines.assets.resources import LakeResource
from pipelines.ingest.ldms_ingest import read_quarantine
from pipelines.report.table import markdown_of
from pipelines.storage.counters_store import CountersStore
from pipelines.workflows.variability_table import FEATURES_TABLE, MODEL_TABLE, unpack_table

NIGHTS_TABLE = "variability_nights"
CHECKS = {"a_champion_serves": "A version is good enough for the alias champion (a warning if none is)."}


@system_stage(
    "keeping the row of the night",
    checks=CHECKS,
    deps=["variability_model", "cluster_experiments"],
    group_name="nights",
    kinds={"parquet"},
    description="The mark of a day: the night was done. Missing where it was missed; a backfill of it and everything above it does it.",
)
def variability_night(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Add the night's row and report what the night decided."""
    name, day, tables = lake.name, lake.night, lake.lake()
    registered, decided = tables.read(MODEL_TABLE, name)
    champion = tables.models(VARIABILITY.registered(name)).get("champion", "")
    runs = unpack_table(name, *tables.read(FEATURES_TABLE, name)).runs
    row: dict[str, Any] = {
        "night": day,
        "files": _new_files(context),
        "quarantined": len(read_quarantine(CountersStore(tables.root, name))),
        "runs": len(runs),
        "last_start_s": int(runs["start_s"].max()),
        "champion": champion,
        "promoted": decided["promoted"],
        "why": decided["why"],
        "note": "; ".join(decided["notes"]),
    }
    published = tables.published()
    before = published.read(NIGHTS_TABLE, name)[0] if published.has(NIGHTS_TABLE, name) else pd.DataFrame({"night": []})
    before = before[before["night"] != day]
    tables.write(NIGHTS_TABLE, name, pd.concat([before, pd.DataFrame([row])], ignore_index=True))
    return dg.MaterializeResult(
        metadata={
            **row,
            "champion": f"models:/{VARIABILITY.registered(name)}/{champion}" if champion else "none",
            "simulated": decided["generated"],
            "candidates": dg.MetadataValue.md(markdown_of(registered.drop(columns="why"), ".4f")),
        },
        check_results=[holds("a_champion_serves", champion != "", severity=dg.AssetCheckSeverity.WARN, why=decided["why"])],
    )


def _new_files(context: dg.AssetExecutionContext) -> int:
    """Return the number of counter files that the run read or continued to read."""
    for entry in context.instance.all_logs(context.run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.asset_materialization
        if event is not None and NEW_FILES in event.metadata:
            return int(str(event.metadata[NEW_FILES].value))
    return 0
