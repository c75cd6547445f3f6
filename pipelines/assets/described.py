"""Metadata of a materialisation in Dagster: rows, columns, versions, links, pictures.

A column has one meaning in all tables. Columns that come in numbers, such as those of counters, are described by
patterns.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa
from matplotlib.figure import Figure

from features.jobs.like_jobs import LEVELS, OF_JOB, OF_LEVEL, SPREAD, VARIABILITY, level_name
from features.jobs.schema import COLUMNS as OF_JOBS
from features.jobs.schema import fingerprint
from models.packed.queue_state import FEATURES
from models.registry.tracking import Tracking
from pipelines.lake.files import schema_of
from pipelines.lake.places import PAGES
from pipelines.lake.tables import Lake
from pipelines.report.page import data_uri
from pipelines.training.promote import MADE_FROM

_JOBS = {
    "trace": "name of the trace",
    "system": "name of the monitored system",
    "origin_unix_s": "Unix time from which the seconds of the table count",
    "written_id": "number of the job as its source writes it",
    "overrun_s": "runtime beyond the request that cleaning cut off",
    "rule": "name of the cleaning rule",
    "action": "dropped, or altered",
    "column": "column that was altered",
    "before": "value before the alteration",
    "after": "value after the alteration",
    "line": "line of the source",
    "text": "line of the source as it stands, if it is no job",
}
_FEATURES = {
    "start_s": "start, from the trace's origin",
    "end_s": "end, from the trace's origin",
    "completed_jobs": "jobs of the user that had ended",
    "last_runtime_s": "runtime of the user's last ended job",
    "second_last_runtime_s": "runtime of the user's second last ended job",
    "third_last_runtime_s": "runtime of the user's third last ended job",
    "mean_last2_runtime_s": "mean runtime of the user's last two ended jobs",
    "mean_last3_runtime_s": "mean runtime of the user's last three ended jobs",
    "mean_runtime_s": "mean runtime of the user's ended jobs",
    "sum_runtime_s": "sum of the runtimes of the user's ended jobs",
    "mean_procs": "mean requested processors of the user's ended jobs",
    "mean_allocated_procs": "mean allocated processors of the user's ended jobs",
    "procs_over_mean": "requested processors over the user's mean, a ratio",
    "running_jobs": "running jobs of the user",
    "running_mean_procs": "mean processors of the user's running jobs",
    "occupied_procs": "processors of the user's running jobs",
    "longest_running_s": "time since the user's first running job started",
    "sum_running_s": "sum of the times since the user's running jobs started",
    "break_s": "time since the user's last job ended",
    "cos_day": "cosine of the time of day, from -1 to 1",
    "sin_day": "sine of the time of day, from -1 to 1",
    "cos_week": "cosine of the time of week, from -1 to 1",
    "sin_week": "sine of the time of week, from -1 to 1",
    **{
        f"{level_name(level)}_{column}": f"jobs with the same {', '.join(level).replace('requested_s', 'request')}: {meaning}"
        for level in LEVELS
        for column, meaning in OF_LEVEL.items()
    },
    **OF_JOB,
    **VARIABILITY,
    SPREAD: "standard deviation of ln runtime of the user's last 16 ended jobs most like it",
}
_MODELS = {
    "model": "name of the registered model",
    "version": "version in the model registry",
    "trained_version": "version that was trained, of which the version is a refresh",
    "method": "method of the model",
    "alias": "champion, challenger, or none",
    "why": "reason of the decision",
    "reads": "columns of runtime_features that the version reads, with blanks between",
    "accuracy": "mean of min(p/r, r/p) of runtime p and prediction r, from 0 to 1",
    "judged_jobs": "jobs that judged the version",
    "judged_runs": "runs that judged the version",
    "f1": "F1 of the warnings, from 0 to 1",
    "note": "remark",
}
_COMPARED = {
    "scheduler": "scheduler, as [ORDER-]ALGORITHM[-BACKFILLORDER]",
    "predictor": "predictor of runtimes",
    "correction": "correction of predictions that a job outlives",
    "semantics": "when passes of the scheduler are, per-second or per-event",
    "starvation_s": "wait after which a job comes first",
    "seed": "seed of the replay",
    "shake_s": "most by which submissions were moved",
    "machine": "machine that jobs run on",
    "schedule": "number of the schedule",
    "predicted_s": "predicted runtime at submission",
    "corrections": "corrections of the prediction",
    "clamped_predictions": "predictions that were clamped to 1..request",
    "simulate_s": "processor time of the simulation",
    "metric": "metric of the schedule",
    "measure": "measure of the predictions",
    "value": "value of the metric or measure, in its own unit",
    "relative": "change from the baseline, a ratio minus 1",
    "low": "lower end of the interval",
    "high": "upper end of the interval",
    "sure": "whether the interval, corrected for comparisons, leaves out 0",
    "p": "chance of such a change without a difference",
    "baseline": "value of the baseline, in the same unit",
    "coverage": "share of replays in the interval",
    "least": "smallest value of a replay",
    "most": "largest value of a replay",
    "weeks": "weeks that were paired, 0 for trials",
    "replicates": "shaken replays, or trials",
    "by": "what jobs are grouped by",
    "group": "group of jobs; in tables of jobs, group or account charged",
    "begin": "lower end of the group",
    "jobs": "jobs in the group",
    "difference": "difference from the baseline",
    "difference_low": "lower end of the difference's interval",
    "difference_high": "upper end of the difference's interval",
    "kind": "trace or system",
    "subject": "name of the trace or system",
    "compared_with": "scheduler and predictor of the baseline",
    "undisturbed_s": "runtime alone on the machine",
    "varied": "whether the run took longer than most control runs of its application and size",
    "times_usual": "runtime over the mean of such control runs",
    "skips": "starts that the classifier put off",
}
_STARTS = {
    "at_s": "second of the question, from the trace's origin",
    "age_s": "time that the job had waited",
    "waited_s": "time from the question to the start",
    "fits": "whether the job fitted beside what ran",
    "plan_s": "start in the scheduler's plan, from the question on",
    "place": "place of the outcome in the predicted distribution, from 0 to 1",
    "score": "ranked score of the answer, lower is better",
    "challenger_score": "ranked score of the challenger's answer, lower is better",
}
_SITE = {
    "day": "day",
    "starts": "starts after a wait",
    "explained": "recorded starts that the rules explain",
    "extra": "starts by the rules that did not happen",
}
_RUNS = {
    "run_id": "number of the run: of a control run, or else of the job",
    "control": "whether it is a control run, from which classifiers learn",
    "application": "application",
    "type": "type of the application",
    "input": "input of the application",
    "scope": "nodes whose counters are read",
    "read_gb_s": "data read, in GB/s",
    "write_gb_s": "data written, in GB/s",
    "sent_gb_s": "data sent, in GB/s",
    "node": "node",
    "send_s": "time of the probe's sends",
    "recv_s": "time of the probe's receives",
    "allreduce_s": "time of the probe's allreduce",
}
_EVERY = {**_FEATURES, **_MODELS, **_COMPARED, **_STARTS, **_SITE, **_RUNS, **_JOBS}
_UNITS = {"_log_s": "ln s", "_s": "seconds", "procs": "processors"}
_PATTERNS = {
    r"by_(\d+)_s": "chance of a start within {0} seconds, from 0 to 1",
    r"challenger_by_(\d+)_s": "the challenger's chance of a start within {0} seconds, from 0 to 1",
    r"chance_(\w+)": "chance of a start within {0}, from 0 to 1",
    r"wait_(\d+)_s": "quantile {0} % of the wait from the question on, in seconds",
    r"scenario_(\d+)_s": "start in scenario {0}, from the question on, in seconds",
    r"probe\.(send|recv|allreduce)_s\.(min|max|mean)": "{1} over the run's nodes of the wait in {0} of an MPI probe, in seconds",
    r"type\.(\w+)": "1 if the site calls the application one of {0}, else 0",
    r"job\.nodes": "nodes of the run",
    r"job\.leaves": "leaf switches of the run's nodes",
    r"job\.crossing": "largest share of a node's partners under other leaf switches, from 0 to 1",
    r"running\.(\w+)": "share of all nodes on which {0} applications ran at the start, from 0 to 1",
    r"beside\.(\w+)": "share of the nodes under the run's leaf switches with {0} applications, from 0 to 1",
    r"offered\.io": "usual reads and writes of all applications at the start, in GB/s",
    r"offered\.network": "usual traffic through the uplinks of the run's busiest leaf switch, in GB/s",
    r"(.*)\.newest": "rate of the counter {0} by the last sample before the run, mean over all nodes, a second",
    r"(.*)\.(min|max|mean)": "{1} rate of the counter {0} in the minutes before the run, a second",
    r"accuracy_(\w+)": "accuracy of {0} over the last days, from 0 to 1",
}


def described(column: str) -> str | None:
    """Return what a column is, with its unit; None for a column that no table of ours has."""
    if column in OF_JOBS:
        facts = OF_JOBS[column]
        return facts.meaning + (f", in {facts.unit}" if facts.unit else "")
    if column in _EVERY:
        unit = next((name for ending, name in _UNITS.items() if column.endswith(ending)), "")
        return _EVERY[column] + (f", in {unit}" if unit else "")
    if column in FEATURES:
        return f"state of the queue at the question: {column.replace('_', ' ')}"
    for pattern, text in _PATTERNS.items():
        if match := re.fullmatch(pattern, column):
            return text.format(*match.groups())
    return None


COLUMNS = "columns"
"""Key of the columns of tables that are read for their finding: columns under Dagster's own key stand above all
metadata."""


def digest(facts: object) -> str:
    """Return the first 16 hex digits of the SHA-256 of ``facts`` written as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class WrittenTable:
    """Facts about a table: ``metadata`` with rows and columns, and the data ``version``."""

    metadata: dict[str, Any]
    version: dg.DataVersion

    def materialized(
        self,
        metadata: Mapping[str, Any],
        checks: Iterable[dg.AssetCheckResult] = (),
        asset: str | None = None,
    ) -> dg.MaterializeResult:
        """Return a materialisation with ``checks``, and ``metadata`` before rows and columns."""
        facts = {**metadata, **self.metadata}
        return dg.MaterializeResult(asset_key=asset, data_version=self.version, metadata=facts, check_results=[*checks])


def written_table(lake: Lake, table: str, name: str, columns_key: str = "dagster/column_schema") -> WrittenTable:
    """Return rows, columns and data version of ``table`` of ``name``, read from the lake."""
    schema = schema_of(lake.path(table, name))
    frame, _ = lake.read(table, name)
    for field in schema:
        if pa.types.is_list(field.type):  # pandas cannot hash lists
            values = [None if value is None else [*value] for value in frame[field.name]]
            frame[field.name] = [json.dumps(value, default=str) for value in values]
    columns = [
        dg.TableColumn(field.name, str(getattr(field.type, "value_type", field.type)), description=described(field.name))
        for field in schema
    ]
    metadata = {"dagster/row_count": len(frame), columns_key: dg.TableSchema(columns=columns)}
    return WrittenTable(metadata, dg.DataVersion(fingerprint(frame)))


def models_version(store: Tracking, model: str, models: Mapping[str, str], **facts: str) -> dg.DataVersion:
    """Return the data version of ``models`` (version by alias) and of what made them.

    A digest of the table of candidates would not do: it also changes if nothing new was registered.
    """
    made_from = [store.client.get_model_version(model, number).tags.get(MADE_FROM, "") for number in models.values() if number]
    return dg.DataVersion(digest([sorted(models.items()), sorted(made_from), facts]))


def picture(drawing: Figure) -> dg.MetadataValue:
    """Return a figure as Markdown that Dagster's UI shows."""
    return dg.MetadataValue.md(f"![plot]({data_uri(drawing)})")


def page_link(page: str) -> dg.MetadataValue:
    """Return the link at which ``queuecast ui`` serves a page once it is published."""
    return dg.MetadataValue.url(f"{PAGES}/{page}")


def registry_link(uri: str, model: str) -> dg.MetadataValue:
    """Return a link to the model on MLflow's server, or the command that starts a server.

    MLflow shows its pages for language models, unless the link, or the switch on the page, selects model training.
    """
    if uri.startswith("http"):
        return dg.MetadataValue.url(f"{uri}/#/models/{model}?workflowType=machine_learning")
    return dg.MetadataValue.text(f"mlflow ui --backend-store-uri {uri}")


TRACE_FILE, LDMS_DIRECTORY, RUN_FILES = "trace_file", "ldms_directory", "control_run_files"
_FILES = {
    TRACE_FILE: ("ingest", "A trace as the site has it: an SWF log, or Slurm's accounting."),
    LDMS_DIRECTORY: ("ingest", "A system's counters as LDMS writes them: a directory of CSV files."),
    RUN_FILES: ("ingest", "A system's tables of control runs, probe results and types of applications."),
}

external = [dg.AssetSpec(name, group_name=group, kinds={"file"}, description=text) for name, (group, text) in _FILES.items()]
