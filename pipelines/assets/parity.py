"""Stage 4 of a trace with a Slurm site: the difference of its replays from its record."""

import dagster as dg

from pipelines.assets.checks import holds
from pipelines.assets.comparison import picture
from pipelines.assets.described import page_link, written_table
from pipelines.assets.nights import trace_stage
from pipelines.assets.resources import LakeResource
from pipelines.dated.site import LOOKED_AT_DAYS, REPLAYED_DAYS, site_of
from pipelines.report import parity as shown
from pipelines.report.site_night import fallen
from pipelines.storage.provenance import code_version, software
from pipelines.workflows.parity import NIGHTLY_REPLAYS, REPLAYS, measure
from pipelines.workflows.progress import report_progress
from sim.explained import by_day, fall

NO_SITE = "no site is stated: key machine of the trace in queuecast.toml"
CHECKS = {"record_stays_explained": "The rules of the site explain as many decisions of its record as before (a warning if not)."}


@trace_stage(
    "replaying the site",
    checks=CHECKS,
    deps=["jobs"],
    group_name="simulation",
    kinds={"html", "numba"},
    description="Replays of a Slurm site beside its last 30 days, where the trace states its machine: waits, decisions, and since when rules explain fewer.",
)
def parity(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
    """Replay the last days; write the page and the explained decisions by day."""
    name = lake.name
    dated = site_of(name, lake.night)
    if dated is None:
        return dg.MaterializeResult(metadata={"replays": NO_SITE}, check_results=[holds("record_stays_explained", True)])
    replays = NIGHTLY_REPLAYS if lake.night else REPLAYS
    measured = measure(dated.site, dated.last(REPLAYED_DAYS), replays, 0, lambda what, done, of: report_progress(what, done, of))
    days = by_day(dated.site, dated.last(LOOKED_AT_DAYS).table, dated.since(LOOKED_AT_DAYS), dated.timezone)
    alarm, clean = fallen(fall(days)), lake.lake().read_clean(name)
    lake.lake().write_for(clean, "parity", days, {"answer": shown.answer(measured), "fall": alarm})
    provenance = {
        "trace": name,
        "site": dated.site.name,
        "replays": replays,
        "seed": 0,
        "code": code_version(),
        "software": software(),
    }
    lake.lake().write_page(f"{name}-parity.html", lake.subject, shown.render_parity(measured, provenance))
    return written_table(lake.lake(), "parity", name).materialized(
        {
            "page": page_link(f"{name}-parity.html"),
            "record": shown.answer(measured)[0],
            **{key: value for key, value in measured.summary.items() if key not in ("trace", "machine")},
            "mean waits": picture(shown.picture(measured)),
        },
        [holds("record_stays_explained", not alarm, severity=dg.AssetCheckSeverity.WARN, drifted=alarm or "none")],
    )
