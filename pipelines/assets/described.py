"""Metadata of each asset in Dagster: code and data versions, owner, freshness, columns.

The UI shows an asset as stale if its code version or the data version of one of its inputs has changed. The code version is a
digest of the code's files, comments included; the data version is a digest of the table's content. Reports and publications state
no data version: Dagster derives it from their code and inputs.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from features.jobs.schema import fingerprint
from models.registry.tracking import Tracking
from pipelines.dated.promote import MADE_FROM
from pipelines.storage.home import PAGES
from pipelines.storage.lake import Lake
from pipelines.storage.parquet import schema_of

HOUSE = Path(__file__).resolve().parents[2]
OWNER = "team:operations"
NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36), warn_window=timedelta(hours=26))
"""A night is late after 26 hours, and missed after 36."""
NIGHTS = ("night", "variability_night")


def _flows(names: str) -> tuple[str, ...]:
    return tuple(f"pipelines/workflows/{name}.py" for name in names.split())


def _dated(names: str) -> tuple[str, ...]:
    return tuple(f"pipelines/dated/{name}.py" for name in names.split())


_JOBS, _SIM, _INGEST = ("features/*.py", "features/jobs/*.py"), ("sim/**/*.py",), ("pipelines/ingest/*.py", "sim/workloads/*.py")
_MODELS = ("models/trees.py", "models/packed/*.py", "models/registry/*.py", *_dated("promote"))
_RUNTIME, _VARIABILITY = ("models/runtime/**/*.py", *_MODELS), ("models/variability/**/*.py", *_MODELS)
_MONITORING = ("features/*.py", "features/monitoring/*.py")
_COUNTERS = (*_MONITORING, *_INGEST, "pipelines/storage/counters_*.py", *_flows("variability_ingest"))
_PUBLISHING = ("pipelines/storage/publishing.py", "pipelines/storage/versions.py")
_FILE = {"rejected_jobs": "jobs", "user_history": "history", "report": "comparison", "counters_by_day": "counters"}
_FILE |= {"control_runs": "counters", "published_trace": "published", "published_system": "published"}
"""The module of each asset whose module does not have the asset's name."""
MADE_BY = {
    "jobs": (*_JOBS, *_INGEST, *_dated("replay")),
    "rejected_jobs": (*_JOBS, *_INGEST, *_dated("replay")),
    "user_history": (*_JOBS, *_dated("history")),
    "runtime_model": (*_JOBS, *_RUNTIME, *_dated("dated train traces judge ledger decided loaded_back")),
    "learned_policy": (*_JOBS, *_SIM, *_dated("policy")),
    "queue_states": (
        *_JOBS,
        *_SIM,
        *_INGEST,
        "models/starts/states.py",
        *_dated("queue_states queue_moments site"),
        *_flows("when"),
    ),
    "start_model": (*_MODELS, "models/starts/*.py", *_dated("starts")),
    "schedules": (*_JOBS, *_RUNTIME, *_SIM, *_dated("simulate served judge policy")),
    "comparison": (*_SIM, *_dated("compare")),
    "report": ("pipelines/report/*", *_dated("pages")),
    "parity": (*_SIM, *_INGEST, "pipelines/report/parity.py", *_flows("parity"), *_dated("site")),
    "what_if": (
        *_SIM,
        *_INGEST,
        *("pipelines/report/what_if.py", "pipelines/workflows/candidates.toml"),
        *_flows("what_if"),
        *_dated("site"),
    ),
    "published_trace": _PUBLISHING,
    "night": (),
    "counters": _COUNTERS,
    "counters_by_day": _COUNTERS,
    "control_runs": (*_MONITORING, *_INGEST, "pipelines/storage/run_store.py"),
    "variability_features": (*_MONITORING, *_flows("variability_table")),
    "variability_model": (*_VARIABILITY, *_dated("systems")),
    "cluster_experiments": (*_VARIABILITY, *_SIM, *_flows("variability_trials")),
    "published_system": _PUBLISHING,
    "variability_night": (),
}
"""The files that make each asset, without its own module and without the files that make its inputs."""


def described(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the asset's specification with its code version, owner and freshness policy."""
    name = spec.key.to_user_string()
    changed = spec.replace_attributes(code_version=code_version(name), owners=[OWNER])
    return changed.replace_attributes(freshness_policy=NIGHTLY) if name in NIGHTS else changed


def code_version(asset: str, house: Path = HOUSE) -> str:
    """Return a digest of the files that make ``asset``."""
    own = f"pipelines/assets/{_FILE.get(asset, asset)}.py"
    files = sorted({file for pattern in (*MADE_BY[asset], own) for file in _files(house, pattern)})
    return digest([(file.relative_to(house).as_posix(), _content(file)) for file in files])


@cache
def _files(house: Path, pattern: str) -> tuple[Path, ...]:
    return tuple(file for file in house.glob(pattern) if file.suffix in (".py", ".j2", ".toml"))


@cache
def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def digest(facts: object) -> str:
    """Return the first 16 hex digits of the SHA-256 of ``facts`` written as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class WrittenTable:
    """Facts about a table: ``metadata`` with rows and columns, and the data ``version``."""

    metadata: dict[str, Any]
    version: dg.DataVersion

    def materialized(
        self, metadata: Mapping[str, Any], checks: Iterable[dg.AssetCheckResult] = (), asset: str | None = None
    ) -> dg.MaterializeResult:
        """Return a materialisation of the table with further ``metadata`` and ``checks``."""
        facts = {**self.metadata, **metadata}
        return dg.MaterializeResult(asset_key=asset, data_version=self.version, metadata=facts, check_results=[*checks])


def written_table(lake: Lake, table: str, name: str) -> WrittenTable:
    """Return rows, columns and data version of ``table`` of ``name``, read from the lake."""
    schema = schema_of(lake.path(table, name))
    frame, _ = lake.read(table, name)
    for field in schema:
        if pa.types.is_list(field.type):  # pandas cannot hash lists
            frame[field.name] = [json.dumps(None if each is None else [*each], default=str) for each in frame[field.name]]
    columns = [dg.TableColumn(field.name, str(field.type), description=_unit(field.metadata)) for field in schema]
    metadata = {"dagster/row_count": len(frame), "dagster/column_schema": dg.TableSchema(columns=columns)}
    return WrittenTable(metadata, dg.DataVersion(fingerprint(frame)))


def models_version(store: "Tracking", model: str, models: Mapping[str, str], **facts: str) -> dg.DataVersion:
    """Return the data version of ``models`` (version by alias) and of what made them.

    A digest of the table of candidates would not do: it also changes if nothing new was registered.
    """
    made_from = [store.client.get_model_version(model, number).tags.get(MADE_FROM, "") for number in models.values() if number]
    return dg.DataVersion(digest([sorted(models.items()), sorted(made_from), facts]))


def _unit(metadata: dict[bytes, bytes] | None) -> str | None:
    unit = (metadata or {}).get(b"unit", b"").decode()
    return f"in {unit}" if unit else None


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
