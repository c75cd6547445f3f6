"""Stage 4 of a trace with a Slurm site: the effects that changes would have had."""

import dagster as dg
import pandas as pd

from pipelines.assets.comparison import picture
from pipelines.assets.described import page_link, written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.parity import NO_SITE
from pipelines.assets.resources import LakeResource
from pipelines.dated.site import REPLAYED_DAYS, site_of
from pipelines.report import what_if as shown
from pipelines.storage.provenance import code_version, software
from pipelines.storage.registry import PREFIX
from pipelines.workers import configured, mapped
from pipelines.workflows.progress import report_progress
from pipelines.workflows.what_if import all_candidates, measure, records

REPLICATES, SHAKE_S = 4, 60


@trace_stage(
    "trying changes of the site",
    deps=["jobs", "parity"],
    group_name="simulation",
    kinds={"html", "numba"},
    description="Changes of a Slurm site, where the trace states its machine: what candidates, those of the site too, would have brought in the last 30 days.",
)
def what_if(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Replay the last days under each candidate; write the page and the table of effects."""
    name = lake.name
    dated = site_of(name, lake.night)
    if dated is None:
        return dg.MaterializeResult(metadata={"candidates": NO_SITE})
    jobs = dated.last(REPLAYED_DAYS)
    tried = [each for each in all_candidates(dated.machine) if not each.rule]
    tried = [each for each in tried if PREFIX not in each.limits + each.time_min]  # tonight's versions have learned from these jobs
    with mapped(configured()) as spread:
        measured = measure(
            dated.site,
            jobs,
            tried,
            REPLICATES,
            SHAKE_S,
            0,
            spread,
            lambda done, of: report_progress("candidates", done, of),
        )
    table = pd.DataFrame([{**each, "lines": "\n".join(each.get("lines", ()))} for each in records(measured)])
    table = table.drop(columns="killed_by_account", errors="ignore")
    lake.lake().write_for(lake.lake().read_clean(name), "what_if", table, {"answer": shown.answer(measured)})
    provenance = {"trace": name, "site": dated.site.name, "replicates": REPLICATES, "code": code_version(), "software": software()}
    lake.lake().write_page(f"{name}-what-if.html", lake.subject, shown.render_what_if(measured, provenance))
    return written_table(lake.lake(), "what_if", name).materialized(
        {
            "page": page_link(f"{name}-what-if.html"),
            "answer": " ".join(shown.answer(measured)),
            "changes": picture(shown.picture(measured)),
        },
    )
