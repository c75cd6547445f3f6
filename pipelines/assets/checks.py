"""Build asset checks: the claim that must hold, and the numbers that show it."""

import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg
import pandas as pd

from pipelines.report.table import markdown_of

# partitions of checks are marked as a preview; without them one trace would hide another's failure
warnings.filterwarnings("ignore", "Specifying a partitions_def on an AssetCheckSpec", dg.PreviewWarning)


def specs(
    asset: str, claims: Mapping[str, str], partitions: dg.PartitionsDefinition, blocking: bool = True
) -> list[dg.AssetCheckSpec]:
    """Return one check specification per claim (name and text), in the asset's partitions.

    If they are ``blocking``, a check that fails as an error stops everything downstream of the asset.
    """
    return [
        dg.AssetCheckSpec(name, asset=asset, description=text, blocking=blocking, partitions_def=partitions)
        for name, text in claims.items()
    ]


def holds(
    name: str,
    passed: bool,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
    **metadata: Any,
) -> dg.AssetCheckResult:
    """Return a check that passes if ``passed``."""
    return dg.AssetCheckResult(check_name=name, passed=bool(passed), severity=severity, metadata=metadata)


def broken(name: str, count: int, rows: int | None = None) -> dg.AssetCheckResult:
    """Return a check that fails if ``count``, the rows that break its claim, is not 0."""
    counted: dict[str, Any] = {"broken": int(count)} | ({} if rows is None else {"of": int(rows)})
    return holds(name, int(count) == 0, **counted)


def as_before(check: str, drift: pd.DataFrame, name: str) -> dg.AssetCheckResult:
    """Return a check that warns if any row of ``drift`` drifted."""
    drifted = [*drift.loc[drift["drifted"], name]] if len(drift) else []
    table = markdown_of(drift, ".3f", empty="first champion")
    severity = dg.AssetCheckSeverity.WARN
    return holds(check, not drifted, severity=severity, drifted=", ".join(drifted) or "none", table=dg.MetadataValue.md(table))
