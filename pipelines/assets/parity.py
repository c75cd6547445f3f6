"""Stage 4 of a trace with a Slurm site: how far its replays are from its record."""

import dagster as dg

from pipelines.assets.comparison import picture
from pipelines.assets.described import page_link
from pipelines.assets.nights import stage
from pipelines.assets.partitions import name_and_day, of_traces
from pipelines.assets.resources import LakeResource
from pipelines.ingest.slurm_site import is_site
from pipelines.report import parity as shown
from pipelines.sources.catalogue import load_catalogue
from pipelines.storage.provenance import code_version, software
from pipelines.workflows.parity import REPLAYS, measure, read_site_jobs
from pipelines.workflows.progress import report_progress

MOST_JOBS = 20_000
"""The last jobs, so many of which are replayed."""


@dg.asset(
    deps=["jobs"],
    partitions_def=of_traces,
    group_name="simulation",
    kinds={"html", "numba"},
    description="Replays of a Slurm site beside its accounting, where the trace states its machine: waits, decisions, and what each rule contributes.",
)
@stage("replaying the site")
def parity(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Replay the accounting on the site that the catalogue states; write the page."""
    name, _ = name_and_day(context.partition_key)
    entry = load_catalogue()[name]
    sited = entry.machine and is_site(entry.machine_path)
    if lake.night or not sited:
        why = "left to runs" if sited else "no site is stated: key machine of the trace in queuecast.toml"
        return dg.MaterializeResult(metadata={"replays": why})
    site, jobs = read_site_jobs(entry.path, entry.machine_path, entry.timezone or "UTC", entry.cluster)
    jobs = jobs._replace(table=jobs.table.tail(MOST_JOBS).reset_index(drop=True))
    made = measure(site, jobs, REPLAYS, 0, lambda what, done, of: report_progress(what, done, of))
    provenance = {"trace": name, "site": site.name, "replays": REPLAYS, "seed": 0, "code": code_version(), "software": software()}
    lake.lake().write_page(f"{name}-parity.html", lake.subject, shown.render_parity(made, provenance))
    return dg.MaterializeResult(
        metadata={
            "page": page_link(f"{name}-parity.html"),
            "record": shown.answer(made)[0],
            **{key: value for key, value in made.summary.items() if key not in ("trace", "machine")},
            "mean waits": picture(shown.picture(made)),
        }
    )
