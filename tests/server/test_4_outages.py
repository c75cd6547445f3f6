"""Servers that are gone for a while are waited for; those that stay away end a command in a line, and nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.server.conftest import SUBJECT, run_of
from tests.server.site import Site
from tests.server.test_1_recipe import ended, launch, runs

GONE_S = 30.0


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


def test_a_run_outlasts_30_s_without_postgresql(ran: Site) -> None:
    site = ran
    before = site.published(SUBJECT)
    with site.under_way(*run_of(site)) as running:
        with stopped(site, "postgres"):
            time.sleep(GONE_S)
            assert running.process.poll() is None, running.text()
        assert running.ended() == 0, running.text()
    after = site.published(SUBJECT)
    assert after["tables"] == before["tables"]
    assert after["version"] != before["version"]


def test_a_run_outlasts_an_object_store_that_fails_in_every_way(ran: Site) -> None:
    site = ran
    assert site.proxy is not None
    before = site.published(SUBJECT)
    with site.under_way(*run_of(site)) as running:
        for fault, seconds in (("503", 15.0), ("reset", 5.0), ("half", 5.0), ("slow", 10.0)):
            with failing(site, fault):
                time.sleep(seconds)
        assert running.ended() == 0, running.text()
    assert site.proxy.faults > 5
    assert site.published(SUBJECT)["tables"] == before["tables"]


def test_a_night_outlasts_mlflow_restarted(ran: Site) -> None:
    site = ran
    if "web" not in site.services:
        site.start_dagster()
    site.queuecast("doctor", "--repair")  # Dagster lets a night wait for a run that it believes to be at work
    known, day = {run["runId"] for run in runs(site)}, "2023-12-09"
    assert site.proxy is not None
    before = len(site.proxy.put)
    launch(site, day)
    until = time.monotonic() + 300
    while not any("/lake/" in path and path.endswith(".parquet") for path in site.proxy.put[before:]):
        assert time.monotonic() < until, "the night did not begin"
        time.sleep(0.05)
    with stopped(site, "mlflow"):
        time.sleep(GONE_S / 3)
    night = ended(site, known)
    assert night["status"] == "SUCCESS", night
    assert day in site.published(SUBJECT)["made_by"]


@pytest.mark.parametrize(
    ("server", "line"),
    [
        ("postgres", "PostgreSQL database queuecast at 127.0.0.1:{postgres} does not answer (waited "),
        ("s3", "s3://site/home/"),
        ("mlflow", "127.0.0.1:{mlflow}"),
    ],
)
def test_a_server_that_stays_away_ends_a_run_in_a_line_and_changes_nothing(server: str, line: str, ran: Site) -> None:
    site = ran
    before = site.published(SUBJECT)
    impatient = site.machine("desk", QUEUECAST_WAIT_S="4")
    with site.under_way(*run_of(site), env=impatient) as running:
        with failing(site, "503") if server == "s3" else stopped(site, server):
            code = running.ended()
        assert code not in (0, -9), running.text()
        said = [each for each in running.text().splitlines() if each.startswith("queuecast: ")]
        assert len(said) == 1, running.text()
        assert line.format(**site.ports) in said[0]
        assert "Traceback" not in running.text()
        assert "defect" not in running.text()
    assert site.published(SUBJECT) == before


def test_what_outages_left_is_taken_away_and_the_same_command_succeeds(ran: Site) -> None:
    mended = ran.queuecast("doctor", "--repair")
    assert ran.queuecast("doctor").returncode == 0, mended.stdout
    done = ran.queuecast(*run_of(ran))
    assert done.returncode == 0, done.stderr
