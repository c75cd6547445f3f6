"""Metadata of a materialisation in Dagster: rows, columns, versions, links, pictures."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pyarrow as pa
from matplotlib.figure import Figure

from features.jobs.schema import fingerprint
from models.registry.tracking import Tracking
from pipelines.assets.columns import described
from pipelines.lake.home import PAGES
from pipelines.lake.parquet import schema_of
from pipelines.lake.tables import Lake
from pipelines.report.page import data_uri
from pipelines.training.promote import MADE_FROM

COLUMNS = "columns"
"""Key of the columns of tables that are read for their finding: columns under Dagster's own key stand above all metadata."""


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
MODELS = {"runtime": "published_trace", "policy": "published_trace", "start": "start_model", "variability": "published_system"}
"""The asset that moves the aliases, by kind of registered model."""
_FILES = {
    TRACE_FILE: ("ingest", "A trace as the site has it: an SWF log, or Slurm's accounting."),
    LDMS_DIRECTORY: ("ingest", "A system's counters as LDMS writes them: a directory of CSV files."),
    RUN_FILES: ("ingest", "A system's tables of control runs, probe results and types of applications."),
}

external = [
    *(dg.AssetSpec(name, group_name=group, kinds={"file"}, description=text) for name, (group, text) in _FILES.items()),
    *(
        dg.AssetSpec(
            f"registered_{kind}",
            deps=[last],
            group_name="registry",
            kinds={"mlflow"},
            description=f"The versions `{kind}-<subject>` of the model registry, which consumers load by the alias champion.",
        )
        for kind, last in MODELS.items()
    ),
]
