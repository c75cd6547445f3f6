"""What follows the published trace: when jobs start, and replays of its Slurm site.

Models of starts are made where they are asked for: ``--starts``, or ``starts`` in the catalogue. What learns and
replays is imported by the stages that need it: most runs need none.
"""

from collections.abc import Iterator

import dagster as dg

from pipelines.assets.checks import holds
from pipelines.assets.described import COLUMNS, page_link, registry_link, written_table
from pipelines.assets.stages import LakeResource, RegistryResource, trace_stage
from pipelines.lake.tables import read_features
from pipelines.report.table import markdown_of
from pipelines.studies.progress import progress_reporter
from pipelines.training.promote import RULES
from pipelines.training.work import cutoff_of

NOT_LEARNED = "no model of starts was made"
"""Beginning of the warning that says why; commands repeat it."""


@trace_stage(
    deps=["published_trace"],
    group_name="starts",
    kinds={"parquet", "numba"},
    description="What jobs found when they were submitted and while they waited: the state of the queue, and their starts when it is run ahead in scenarios.",
)
def queue_states(context: dg.AssetExecutionContext, lake: LakeResource) -> Iterator[dg.MaterializeResult]:
    """Ask about the last starts before the date, and of a run about those that follow.

    Nothing is made if starts cannot be learned from this trace.
    """
    from pipelines.training.queue_states import keep_states

    work_lake = lake.lake()
    clean = work_lake.read_clean(lake.name)
    date = cutoff_of(work_lake.read_for(clean, "runtime_model")[1])
    if why := keep_states(work_lake, clean, read_features(work_lake, clean), date, progress_reporter("states")):
        context.log.warning(f"{lake.name}: {NOT_LEARNED}: {why}")
        return
    marks = work_lake.read_for(clean, "queue_states")[1]
    facts = {"asked_anew": marks["asked_anew"], "generated": clean.generated}
    yield written_table(work_lake, "queue_states", lake.name).materialized(facts)


@trace_stage(
    deps=["queue_states"],
    group_name="starts",
    kinds={"mlflow", "lightgbm"},
    code_version=RULES["start"],
    description="Versions `start-<trace>`: when a waiting job starts. A run judges them on what follows its date, a night on what was answered before.",
)
def start_model(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> dg.MaterializeResult:
    """Register models of starts up to the date, and publish their judged answers."""
    from models.registry.start_registration import START
    from models.starts.evaluation import quality
    from pipelines.serving.asked_log import started
    from pipelines.training.queue_states import read_states
    from pipelines.training.starts import keep_start_model

    work = lake.work(registry)
    clean = work.lake.read_clean(lake.name)
    date = cutoff_of(work.lake.read_for(clean, "runtime_model")[1])
    asked = read_states(work.lake, clean, read_features(work.lake, clean))
    result = keep_start_model(work, clean, asked, date)
    work.publish()
    answers = work.lake.read_for(clean, "starts")[0]
    given = started(START.registered(clean.name), clean.jobs, asked.start_s, clean.origin_unix_s or 0)
    table = work.lake.read_for(clean, "start_model")[0]
    return written_table(work.lake, "start_model", lake.name, COLUMNS).materialized(
        {
            "why": result.why,
            "champion": f"models:/{result.name}/{result.champion}" if result.champion else "none",
            **quality(answers),
            "answers_to_users": dg.MetadataValue.json(quality(given)),
            "mlflow": registry_link(work.store.place, START.registered(lake.name)),
            "versions": dg.MetadataValue.md(markdown_of(table.drop(columns="why"), ".4f")),
            "generated": clean.generated,
        },
    )


CHECKS = {"record_stays_explained": "The rules of the site explain as many decisions of its record as before (a warning if not)."}


@trace_stage(
    deps=["published_trace"],
    group_name="site",
    kinds={"html", "numba"},
    checks=CHECKS,
    description="Replays of a Slurm site beside its last 30 days, where the trace states its machine: waits, decisions, and since when rules explain fewer.",
)
def parity(context: dg.AssetExecutionContext, lake: LakeResource, registry: RegistryResource) -> Iterator[dg.MaterializeResult]:
    """Replay the last days; write the page and the explained decisions by day; publish them."""
    from pipelines.report import parity as parity_page
    from pipelines.training.site import NO_SITE, keep_parity, site_of

    work, site = lake.work(registry), site_of(lake.name, lake.night)
    if site is None:
        context.log.warning(f"{lake.name}: {NO_SITE}")
        return
    measured, alarm = keep_parity(work, site)
    work.publish()
    warn = dg.AssetCheckSeverity.WARN
    yield written_table(work.lake, "parity", lake.name, COLUMNS).materialized(
        {
            "record": parity_page.answer(measured)[0],
            "page": page_link(f"{lake.name}-parity.html"),
            **{key: value for key, value in measured.summary.items() if key not in ("trace", "machine")},
        },
        [holds("record_stays_explained", not alarm, severity=warn, drifted=alarm or "none")],
    )
