"""Since when a record stops being explained: on sites whose configuration changes at a known date, and on such as do not change."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from sim.site.explained import FALSE_ALARMS, by_day, fall
from sim.site.replay import replay
from sim.slurm.begin import begin
from sim.slurm.events import RecordedState, held_nodes
from sim.slurm.files import read_site
from sim.slurm.phases import draw, draw_phases
from sim.slurm.recorded import SUBMIT
from sim.slurm.site import Site
from tests.sim.site.test_what_if import jobs as few_jobs

ORIGIN = 1_772_323_200  # 2026-03-01
DAYS, CHANGED = 60, 52  # the change is made on 2026-04-22
CONF = """\
SchedulerParameters=bf_interval=60,bf_continue
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=1000
NodeName=n[1-8] CPUs=4 RealMemory=4000
PartitionName=short Nodes=ALL MaxTime=2:00:00 PriorityTier=2
PartitionName=long Nodes=ALL MaxTime=8:00:00
"""


def site(old: str = "", new: str = "") -> Site:
    return read_site({"slurm.conf": CONF.replace(old, new)}, "here")


def jobs(seed: int) -> pd.DataFrame:
    """Return jobs of sixty days, of which all ends before the day of the change."""
    random = np.random.default_rng(seed)
    count = random.poisson(np.where(np.arange(DAYS) % 7 < 5, 36, 18))
    count[CHANGED - 1] = 2
    day = np.repeat(np.arange(DAYS), count)
    table = few_jobs(len(day), seed)
    submit = ORIGIN + DAY_S * day + random.integers(0, 12 * 3600, len(day))
    long = random.random(len(day)) < 0.4
    limit = np.where(long, 60 * random.integers(120, 300, len(day)), 60 * random.integers(20, 120, len(day)))
    return table.assign(
        submit_s=np.sort(submit),
        **{"partition": np.where(long, "long", "short"), "limit_s": limit, "least_limit_s": limit},
        **{"runtime_s": (limit * random.uniform(0.3, 1, len(day))).astype(np.int64), "cpus": 2 ** random.integers(0, 5, len(day))},
    )


def recorded(table: pd.DataFrame, before: Site, after: Site, seed: int) -> pd.DataFrame:
    """Return a record: replayed under one site before the change, under the other from then on."""
    parts = []
    late = table["submit_s"] >= ORIGIN + CHANGED * DAY_S
    for on, rows in ((before, ~late), (after, late)):
        part = table[rows].reset_index(drop=True)
        replayed = replay(on, part, draw(on, part, seed)._replace(run_parts_s=None))  # these jobs run for whole seconds
        start = np.floor(replayed.start_s).astype(np.int64)
        names = {"nodes": replayed.nodes, "started_by": replayed.started_by, "priority": 0}
        parts.append(part.assign(start_s=start, end_s=start + part["runtime_s"].to_numpy(), **names))
    assert parts[0]["end_s"].max() < parts[1]["submit_s"].min()
    return pd.concat(parts, ignore_index=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"),
    [("bf_continue\n", "bf_continue\nSchedulerType=sched/builtin\n"), ("PriorityTier=2", "PriorityTier=1")],
)
def test_the_date_of_a_changed_configuration_is_named_within_days(old: str, new: str) -> None:
    record = recorded(jobs(3), site(), site(old, new), 7)
    days = by_day(site(), record, ORIGIN)
    assert days["starts"].sum() == (record["start_s"] > record["submit_s"] + 60).sum()
    before = days[:CHANGED]
    assert before["explained"].sum() > 0.95 * (before["starts"] + before["extra"]).sum()
    nights = {night: fall(days[:night]) for night in range(8, DAYS + 1)}
    named = {night: drop.day for night, drop in nights.items() if drop is not None}
    assert CHANGED < min(named) <= CHANGED + 4, "and on no night before"
    assert set(named.values()) == {"2026-04-22"}


@pytest.mark.slow
def test_days_that_are_alike_raise_an_alarm_in_one_night_of_a_thousand_at_most() -> None:
    random, alarms, nights = np.random.default_rng(11), 0, 200
    for _ in range(nights):
        starts = random.poisson(np.where(np.arange(30) % 7 < 5, 50, 8))
        explained = random.binomial(starts, random.beta(9, 1, 30))  # no two days have the same share
        names = [str(day) for day in range(30)]
        alarms += fall(pd.DataFrame({"day": names, "starts": starts, "explained": explained, "extra": 0})) is not None
    assert alarms <= nights * FALSE_ALARMS + 1


def test_a_fall_needs_days_before_it_and_a_size() -> None:
    def days(shares: list[float]) -> pd.DataFrame:
        names = [f"2026-03-{day + 1:02d}" for day in range(len(shares))]
        return pd.DataFrame({"day": names, "starts": 100, "explained": [round(100 * share) for share in shares], "extra": 0})

    assert fall(days([0.9] * 7)) is None
    assert fall(days([0.9] * 20 + [0.87] * 10)) is None
    drop = fall(days([0.9] * 20 + [0.6] * 10))
    assert drop is not None
    assert (drop.day, round(drop.before, 2), round(drop.after, 2)) == ("2026-03-21", 0.9, 0.6)


def test_a_requeued_job_keeps_its_place_in_the_list_of_jobs() -> None:
    here, table = site(), few_jobs(3, 0).assign(job_id=["1", "2", "1"], nodes="n1", partition="long")
    slurm = begin(here, table, draw_phases(here, 3, 0))
    record = RecordedState(slurm, held_nodes(here, table), np.zeros(3), table["job_id"])
    for row in range(3):
        record.follow([(1_000 * row, SUBMIT, row)], (), asks=False)
    assert slurm.now.place.tolist() == [0, 1, 0]
