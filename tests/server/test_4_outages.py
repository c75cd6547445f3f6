"""Each server is gone for a while, or fails, and is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.server.conftest import SUBJECT, run_of
from tests.server.site import Running, Site
from tests.server.test_1_recipe import ended, launch, runs
from tests.support.patience import wait_until

GONE_S = 10.0
"""Seconds without a server: in which what needs it waited."""
FAULTS = {"503": 8, "reset": 2, "half": 2, "slow": 4}
"""How often each kind of fault meets a run, one kind after the other; of the first so often that it waits for longer and longer."""


@contextmanager
def stopped(site: Site, name: str) -> Iterator[None]:
    """Stop a server for the body."""
    site.services[name].stop()
    try:
        yield
    finally:
        site.services[name].start()


@contextmanager
def failing(site: Site, fault: str) -> Iterator[None]:
    """Let the object store fail for the body."""
    assert site.proxy is not None
    site.proxy.fault = fault
    try:
        yield
    finally:
        site.proxy.fault = ""


def test_a_run_outlasts_an_object_store_that_fails_in_every_way(ran: Site) -> None:
    site = ran
    assert site.proxy is not None
    before = site.published(SUBJECT)

    def hit(faults: int, running: Running) -> bool:
        assert site.proxy is not None
        assert running.process.poll() is None, running.text()
        return site.proxy.faults >= faults

    with site.under_way(*run_of(site)) as running:
        for fault, times in FAULTS.items():
            with failing(site, fault):
                wait_until(partial(hit, site.proxy.faults + times, running), running.text)
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
