"""Runs that are killed, and two at once: a reader sees what one of them published, whole."""

from __future__ import annotations

import subprocess

from tests.server.conftest import SUBJECT, run_of
from tests.server.site import Site


def test_a_killed_run_changes_nothing_and_the_next_one_succeeds(ran: Site) -> None:
    site = ran
    before = site.published(SUBJECT)
    with site.under_way(*run_of(site)) as running:
        running.process.kill()
        assert running.ended() == -9
    assert site.published(SUBJECT) == before
    again = site.queuecast(*run_of(site))
    assert again.returncode == 0, again.stderr
    after = site.published(SUBJECT)
    assert after["version"] != before["version"]
    assert after["tables"] == before["tables"]


def test_of_two_runs_at_once_on_two_machines_readers_see_one(ran: Site) -> None:
    site = ran
    before = site.published(SUBJECT)
    running = [
        subprocess.Popen(
            site.command(*run_of(site)),
            env=site.machine(name),
            cwd=site.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("desk", "other-desk")
    ]
    said = [process.communicate(timeout=600) for process in running]
    codes = [process.returncode for process in running]
    assert 0 in codes, said
    for code, (_, told) in zip(codes, said, strict=True):
        assert code == 0 or ("again" in told and "Traceback" not in told), told
    after = site.published(SUBJECT)
    assert after["version"] != before["version"]
    assert after["tables"] == before["tables"], "whole: each table is read, and is as every run makes it"
    assert after["aliases"].keys() >= {"champion"}
