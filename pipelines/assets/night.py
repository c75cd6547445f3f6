"""The mark of a trace's night: it ran, what it decided, and what drifted.

The asset makes no table. It comes after all other assets of a night and before publishing. So a day without it had no night, and
its checks run before any reader sees the night.
"""

from typing import Any

import dagster as dg
import pandas as pd

from pipelines.assets.checks import as_before, holds
from pipelines.assets.described import page_link
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.report.table import escaped
from pipelines.serving.judging import answered

CHECKS = {
    "champion_serves_this_night": "What consumers will load as champion has the histories of this night.",
    "inputs_as_before": "Processors, requested times, hours and users of the last window are like those the champion learned from (a warning if not).",
    "champion_as_good_as_when_promoted": "Accuracy and under-prediction of what was served are no worse than at its promotion (a warning if not).",
}


@trace_stage(
    "looking at what was made",
    checks=CHECKS,
    deps=["runtime_model", "report"],
    group_name="nights",
    kinds={"python"},
    description="The mark of a day: the night was done. Missing where it was missed; a backfill of it and everything above it does it.",
)
def night(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Report what the night decided and what drifted."""
    name, day = lake.name, lake.night
    clean, store, model = lake.lake().read_clean(name), registry.tracking(), f"runtime-{name}"
    decided: dict[str, Any] = lake.lake().read_for(clean, "runtime_model")[1]["night"]
    row, number = decided["row"], lake.lake().models(model)["champion"]
    drift, performance = pd.DataFrame(decided["drift"]), pd.DataFrame(decided["performance"])
    dated = store.client.get_model_version(model, number).tags.get("snapshot_s")
    served = {key.removeprefix("accuracy_"): value for key, value in row.items() if key.startswith("accuracy_") and value == value}
    return dg.MaterializeResult(
        metadata={
            "night": day,
            "published": True,
            **{key: row[key] for key in ("why", "promoted", "jobs", "fingerprint")},
            "new jobs": row["new_jobs"],
            "champion": f"models:/{model}/{number}",
            "accuracy as served": dg.MetadataValue.json(served),
            **({"answers over HTTP": dg.MetadataValue.json(answers)} if (answers := answered(clean)) else {}),
            "notes": dg.MetadataValue.md("\n".join(f"* {escaped(note)}" for note in decided["notes"]) or "none"),
            "page": page_link(f"nights/{name}/{day}.html"),
            "generated": clean.generated,
        },
        check_results=[
            holds("champion_serves_this_night", dated == str(row["until_s"]) or row["method"] == "", version=int(number)),
            as_before("inputs_as_before", drift, "input"),
            as_before("champion_as_good_as_when_promoted", performance, "measure"),
        ],
    )
