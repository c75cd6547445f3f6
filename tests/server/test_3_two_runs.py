"""Two runs at once, on two machines: a reader sees what one of them published, whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.server.conftest import SUBJECT, run_of
from tests.server.site import Site


def test_of_two_runs_at_once_on_two_machines_readers_see_one(ran: Site) -> None:
    site = ran
    before = site.published(SUBJECT)
    with ThreadPoolExecutor() as pool:
        done = [*pool.map(lambda name: site.queuecast(*run_of(site), env=site.machine(name)), ("desk", "other-desk"))]
    assert 0 in [each.returncode for each in done], done
    for each in done:
        assert each.returncode == 0 or ("again" in each.stderr and "Traceback" not in each.stderr), each.stderr
    after = site.published(SUBJECT)
    assert after["version"] != before["version"]
    assert after["tables"] == before["tables"], "whole: each table is read, and is as every run makes it"
    assert after["aliases"].keys() >= {"champion"}
