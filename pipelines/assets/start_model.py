"""Stage 3 of starts: train models of when jobs start, register and judge them."""

import dagster as dg
import pandas as pd

from models.registry.start_registration import START
from models.registry.versions import all_or_nothing
from models.starts.evaluation import quality
from pipelines.assets.checks import as_before, holds, specs
from pipelines.assets.described import page_link, registry_link, written_table
from pipelines.assets.nights import stage
from pipelines.assets.partitions import of_traces
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.dated.dated import dated_of
from pipelines.dated.starts import keep_starts, worse_than_before
from pipelines.report.table import markdown_of
from pipelines.storage.provenance import code_version, software

CHECKS = {
    "learned_or_told_why": "A version of start-<trace> serves, or a note says why there is none.",
    "new_version_answers_as_here": "Loaded back from the registry, the new version gives the last questions the answers it gives here.",
}

DRIFTED, _SAYS = "answers_as_good_as_at_first", "Answers of late score no worse, beyond chance, than the champion's first."


@dg.asset(
    deps=["queue_states"],
    partitions_def=of_traces,
    group_name="predictors",
    kinds={"mlflow", "lightgbm"},
    check_specs=[*specs("start_model", CHECKS), dg.AssetCheckSpec(DRIFTED, asset="start_model", description=_SAYS)],
    description="Versions start-<trace>: when a waiting job starts. A run judges them on what follows its date, a night on what was answered before.",
)
@stage("learning when jobs start")
def start_model(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Register models of starts up to the date; keep their answers with the outcomes."""
    name = lake.name
    store, clean = registry.tracking(), lake.lake().read_clean(name)
    date = dated_of(lake.lake().read_for(clean, "runtime_model")[1])
    provenance = {"code": code_version(), "software": software()}
    with all_or_nothing(store):
        result = keep_starts(lake.lake(), clean, date, store, provenance, lake.work(store, context.run.run_id).tags)
    answers, marks = lake.lake().read_for(clean, "starts")
    drift = worse_than_before(answers) if date.night else pd.DataFrame()
    if result is None:
        why = str(marks["why"])
        checks = [holds("learned_or_told_why", True, note=why), holds("new_version_answers_as_here", True)]
        return dg.MaterializeResult(metadata={"why none": why}, check_results=[*checks, as_before(DRIFTED, drift, "measure")])
    table = lake.lake().read_for(clean, "start_model")[0]
    return written_table(lake.lake(), "start_model", name).materialized(
        {
            "champion once published": f"models:/{result.name}/{result.champion}" if result.champion else "none",
            "why": result.why,
            **quality(answers),
            "page": page_link(f"{name}-starts.html"),
            "MLflow": registry_link(store.place, START.registered(name)),
            "versions": dg.MetadataValue.md(markdown_of(table.drop(columns="why"), ".4f")),
            "generated": clean.generated,
        },
        [
            holds("learned_or_told_why", bool(result.champion), version=result.champion),
            holds("new_version_answers_as_here", all(result.checks.values())),
            as_before(DRIFTED, drift, "measure"),
        ],
    )
