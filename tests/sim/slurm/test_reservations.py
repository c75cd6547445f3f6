"""Advance reservations that repeat, that lie on others, and that do not bind their jobs."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from sim.site.replay import replay
from sim.slurm.files import read_site
from sim.slurm.site import Outage
from tests.sim.slurm.test_replay import CONF, jobs_of, waits

DAY = 86_400
TO_ITS_END = 4_400
"""Seconds from the first submission, on a Monday at 13:46:40 UTC, to 15:00."""


def kept(name: str, start: str, end: str, nodes: str = "n[1-4]", flags: str = "") -> str:
    return f"ReservationName={name} StartTime={start} EndTime={end} Nodes={nodes} Flags={flags},SPEC_NODES Users=root\n"


@pytest.mark.parametrize(
    ("flags", "day", "first", "second"),
    [
        ("DAILY", 20, TO_ITS_END, TO_ITS_END),
        ("DAILY", 5, TO_ITS_END, TO_ITS_END),
        ("WEEKDAY", 20, TO_ITS_END, TO_ITS_END),
        ("WEEKEND", 17, 0, 0),
        ("WEEKLY", 19, TO_ITS_END, 0),
        ("WEEKLY", 20, 0, TO_ITS_END),
        ("MAINT", 20, 0, 0),
    ],
)
def test_a_reservation_that_repeats_keeps_jobs_out_each_time(flags: str, day: int, first: float, second: float) -> None:
    text = kept("service", f"1970-01-{day:02}T14:00:00", f"1970-01-{day:02}T15:00:00", flags=flags)
    jobs = jobs_of(
        {"submit_s": 1_000_000, "limit_s": 1200},
        {"submit_s": 1_000_000, "limit_s": 600},
        {"submit_s": 1_000_000 + DAY, "limit_s": 1200},
    )
    assert waits(CONF, jobs, reservations=text) == pytest.approx([first, 0, second], abs=10)


def test_a_reservation_repeats_at_the_same_local_time() -> None:
    text = kept("service", "1970-06-20T15:00:00", "1970-06-20T16:00:00", flags="DAILY")
    site = read_site({"slurm.conf": CONF, "reservations.txt": text}, "site", "Europe/Berlin")
    assert site.reservations[0].times(1_000_000, 1_000_000 + DAY) == [(1_000_800, 1_004_400)]
    summer = int(pd.Timestamp("1980-07-01T00:00:00Z").timestamp())
    assert [start % DAY for start, _ in site.reservations[0].times(summer, summer + DAY)] == [13 * 3600]


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [("", "", 300), ("", "MAINT", 300), ("OVERLAP", "", 0), ("OVERLAP", "MAINT", 300), ("MAINT", "MAINT", 0)],
)
def test_a_job_in_a_reservation_keeps_out_of_others_on_its_nodes(own: str, other: str, expected: float) -> None:
    begin, middle, end = (pd.Timestamp(1_000_000 + s, unit="s").isoformat() for s in (0, 300, 900))
    text = kept("own", begin, end, "n1", own) + kept("other", begin, middle, "n1", other)
    assert waits(CONF, jobs_of({"reservation": "own"}), reservations=text) == [expected]


def test_no_job_knows_of_a_reservation_before_it_is_made() -> None:
    start, end = (pd.Timestamp(1_000_000 + second, unit="s").isoformat() for second in (60, 300))
    created = pd.Timestamp(1_000_000 + 30, unit="s").isoformat()
    text = kept("m", start, end)
    jobs = jobs_of({"cpus": 8}, {"cpus": 8, "submit_s": 1_000_040})
    assert waits(CONF, jobs, reservations=text) == [300, 260]
    assert waits(CONF, jobs, reservations=text.replace("Flags", f"CreateTime={created} Flags")) == [0, 260]


def test_an_order_to_drain_came_somewhere_between_the_last_start_and_the_record() -> None:
    site = read_site({"slurm.conf": CONF}, "site")
    outage = Outage("n1", 1_000_100, 1_000_200, ordered_s=1_000_000)
    site, jobs = replace(site, outages=(outage,)), jobs_of({"nodelist": "n1", "submit_s": 1_000_050, "runtime_s": 20})
    begun = [replay(site, jobs, seed).start_s[0] - 1_000_050 for seed in range(12)]
    assert 2 <= sum(wait < 5 for wait in begun) <= 10
    assert all(wait < 5 or wait > 149 for wait in begun)
