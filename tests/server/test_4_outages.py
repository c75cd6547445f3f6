"""MLflow's server is gone for a while, and is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.server.conftest import SUBJECT
from tests.server.site import Site
from tests.server.test_1_recipe import ended, launch, runs

GONE_S = 10.0
"""Seconds without a server: in which what needs it waited."""


@contextmanager
def stopped(site: Site, name: str) -> Iterator[None]:
    """Stop a server for the body."""
    site.services[name].stop()
    try:
        yield
    finally:
        site.services[name].start()


def test_a_night_outlasts_mlflow_restarted(ran: Site) -> None:
    site = ran
    if "web" not in site.services:
        site.start_dagster()
    earlier, day = {run["runId"] for run in runs(site)}, "2023-12-09"
    before = site.tables()
    launch(site, day)
    site.wait_for_table(before)
    with stopped(site, "mlflow"):
        time.sleep(GONE_S)
    night = ended(site, earlier)
    assert night["status"] == "SUCCESS", night
    assert day in site.published(SUBJECT)["made_by"]
