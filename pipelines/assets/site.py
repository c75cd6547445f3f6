"""Replay the Slurm site of a trace beside its record, where the trace states its machine."""

from collections.abc import Iterator

import dagster as dg

from pipelines.assets.checks import holds
from pipelines.assets.described import COLUMNS, page_link, picture, written_table
from pipelines.assets.resources import LakeResource, RegistryResource
from pipelines.assets.stages import trace_stage
from pipelines.report import parity as parity_page
from pipelines.training.site import NO_SITE, keep_parity, site_of

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
            "mean_waits": picture(parity_page.picture(measured)),
            "page": page_link(f"{lake.name}-parity.html"),
            **{key: value for key, value in measured.summary.items() if key not in ("trace", "machine")},
        },
        [holds("record_stays_explained", not alarm, severity=warn, drifted=alarm or "none")],
    )
