"""Variability, stage 1: read new LDMS files, control runs and probe results."""

import dagster as dg
import pandas as pd

from pipelines.assets.described import LDMS_DIRECTORY, RUN_FILES, digest, written_table
from pipelines.assets.partitions import counter_days, days
from pipelines.assets.resources import LakeResource
from pipelines.assets.stages import system_stage
from pipelines.assets.variability_checks import CONTROL_RUNS, COUNTERS, check_control_runs, check_counters
from pipelines.lake.counters import CountersStore
from pipelines.lake.run_store import PROBE_RESULTS, RUNS, application_types, stored
from pipelines.readers.system import SIMULATED
from pipelines.readers.systems import system
from pipelines.report.table import escaped, markdown_of
from pipelines.studies.progress import progress_reporter
from pipelines.studies.variability_ingest import IngestedFile, read_counters, read_tables, sampled, simulate_if_needed
from pipelines.studies.variability_table import label_balance
from pipelines.training.ledger import SYSTEM_NIGHTS, days_arrived

BY_DAY = "counters_by_day"
_SHOWN = 20

counters_by_day = dg.AssetSpec(
    BY_DAY,
    deps=[dg.AssetDep("counters", partition_mapping=dg.AllPartitionMapping())],
    partitions_def=counter_days,
    group_name="ingest",
    kinds={"parquet"},
    description="The days of each system's counters, as ingested: rows and values by sampler. Written by counters.",
)


def tell_days(context: dg.AssetExecutionContext, name: str, sampled_days: pd.DataFrame) -> None:
    """Log each day with new data as a materialisation of its own partition."""
    if sampled_days.empty:
        return
    for day, rows in sampled_days[sampled_days["new"]].groupby("day"):
        context.instance.add_dynamic_partitions(str(days.name), [str(day)])
        table = rows.drop(columns=["day", "new"])
        context.log_event(
            dg.AssetMaterialization(
                BY_DAY,
                partition=dg.MultiPartitionKey({"day": str(day), "system": name}),
                metadata={
                    "dagster/row_count": int(rows["rows"].sum()),
                    "values": int(rows["values"].sum()),
                    "samplers": dg.MetadataValue.md(markdown_of(table)),
                    "simulated": name == SIMULATED,
                },
            )
        )


@system_stage(
    checks=COUNTERS,
    deps=[LDMS_DIRECTORY],
    group_name="ingest",
    kinds={"parquet"},
    description="Monitoring counters of every node, LDMS CSV into Parquet by sampler and day; broken files are quarantined, the rest goes on.",
)
def counters(context: dg.AssetExecutionContext, system_lake: LakeResource) -> dg.MaterializeResult:
    """Read new counters; report them by day."""
    name = system_lake.name
    _simulated_if_needed(system_lake)
    report = read_counters(system_lake.place(), system(system_lake.place(), name), progress_reporter("read counters"))
    store = CountersStore(system_lake.lake().root, name)
    sampled_days = sampled(store, report)
    tell_days(context, name, sampled_days)
    came = [
        {
            "sampler": sampler,
            "files": tally.files,
            "rows": tally.rows,
            "values": tally.values,
            "duplicates": tally.duplicates,
            "contradictions": tally.contradictions,
        }
        for sampler, tally in sorted(report.samplers.items())
    ]
    parts = [part for sampler in sorted(store.samplers) for part in store.parts(sampler)]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(digest([(part.file, part.rows, part.values) for part in parts])),
        metadata={
            "dagster/row_count": sum(part.rows for part in parts),
            "values": sum(part.values for part in parts),
            "days": len({part.day for part in parts}),
            "simulated": name == SIMULATED,
            "files": f"{report.ingested:,} read, {report.continued:,} read on, {report.unchanged:,} known, {len(report.quarantined):,} quarantined",
            "damaged_lines": report.damaged,
            "text_columns": ", ".join(sorted(report.text_columns)) or "none",
            "came_in": dg.MetadataValue.md(markdown_of(pd.DataFrame(came), empty="nothing new")),
            "samples_by_day": dg.MetadataValue.md(markdown_of(sampled_days, empty="no counters")),
            "quarantine": dg.MetadataValue.md("\n".join(f"* {escaped(text)}" for text in report.quarantined[:_SHOWN]) or "empty"),
            "lake": dg.MetadataValue.path(str(store.root)),
        },
        check_results=check_counters(report.quarantined),
    )


@system_stage(
    checks=CONTROL_RUNS,
    deps=[RUN_FILES],
    group_name="ingest",
    kinds={"parquet"},
    description="Repeated runs of the same applications, with the waits of two MPI probes beside each, and the type of each application.",
)
def control_runs(context: dg.AssetExecutionContext, system_lake: LakeResource) -> dg.MaterializeResult:
    """Keep new rows of the system's tables; report the number of runs per application."""
    name = system_lake.name
    _simulated_if_needed(system_lake)
    tables = read_tables(system_lake.lake(), system(system_lake.place(), name))
    runs = stored(system_lake.lake(), RUNS, name)
    types = application_types(system_lake.lake(), name)
    table = label_balance(runs) if len(runs) else pd.DataFrame({"application": []})
    table.insert(1, "type", table["application"].map(types))
    of_table = written_table(system_lake.lake(), RUNS, name) if len(runs) else None
    return dg.MaterializeResult(
        data_version=of_table.version if of_table else None,
        metadata={
            **(of_table.metadata if of_table else {"dagster/row_count": 0}),
            "simulated": name == SIMULATED,
            "probe_results": len(stored(system_lake.lake(), PROBE_RESULTS, name)),
            "files": dg.MetadataValue.md("\n".join(f"* {escaped(_line(table))}" for table in tables) or "none are known"),
            "applications": dg.MetadataValue.md(markdown_of(table)),
        },
        check_results=check_control_runs(system_lake.lake(), name, sum(len(table.kept.contradicting) for table in tables)),
    )


def _simulated_if_needed(system_lake: LakeResource) -> None:
    """Let the simulated cluster run for one more day in each night."""
    nights = days_arrived(system_lake.lake(), system_lake.name, system_lake.night, SYSTEM_NIGHTS)
    simulate_if_needed(system_lake.place(), system_lake.name, nights)


def _line(table: IngestedFile) -> str:
    kept = table.kept
    left = ", ".join(f"{reason} {count:,}" for reason, count in table.read.left_out.items())
    return (
        f"{table.path}: {len(table.read.runs):,} rows of {table.table}, {kept.added:,} new, {kept.same:,} known, "
        f"{len(kept.contradicting):,} contradicting" + (f"; left out: {left}" if left else "")
    )
