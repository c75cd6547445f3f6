"""Each server is gone for a while, or fails, and is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.server.conftest import SUBJECT, run_of
from tests.server.site import Running, Site
from tests.server.test_1_recipe import ended, launch, runs
from tests.support.patience import wait_until

GONE_S = 10.0
"""Seconds without a server: in which what needs it waited."""
FAULTS = 8
"""How often the object store is busy for a run: so often that it waits for longer and longer."""


@contextmanager
def stopped(site: Site, name: str) -> Iterator[None]:
    """Stop a server for the body."""
    site.services[name].stop()
    try:
        yield
    finally:
        site.services[name].start()


def test_a_run_outlasts_a_busy_object_store(ran: Site) -> None:
    site = ran
    assert site.proxy is not None
    before = site.published(SUBJECT)

    def hit(running: Running) -> bool:
        assert site.proxy is not None
        assert running.process.poll() is None, running.text()
        return site.proxy.faults >= FAULTS

    with site.under_way(*run_of(site)) as running:
        site.proxy.busy = True
        wait_until(lambda: hit(running), running.text)
        site.proxy.busy = False
        assert running.ended() == 0, running.text()
    assert site.published(SUBJECT)["tables"] == before["tables"]


def test_a_night_outlasts_mlflow_restarted(ran: Site) -> None:
    site = ran
    if "web" not in site.services:
        site.start_dagster()
    earlier, day = {run["runId"] for run in runs(site)}, "2023-12-09"
    assert site.proxy is not None
    before = len(site.proxy.put)
    launch(site, day)
    site.wait_for_table(before)
    with stopped(site, "mlflow"):
        time.sleep(GONE_S)
    night = ended(site, earlier)
    assert night["status"] == "SUCCESS", night
    assert day in site.published(SUBJECT)["made_by"]
