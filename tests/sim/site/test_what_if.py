"""Changes of a site, and what pairs of replays say of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.statistics import Ratio, interval_of_replicates
from sim.site.changes import Changed, change, site_change
from sim.site.parity import Open, by_group
from sim.site.replay import replay
from sim.site.what_if import (
    JUDGED_BY,
    Effect,
    Measured,
    Replays,
    _compared,
    _groups,
    effect,
    judged,
    raised,
    same,
    shaken,
    usual_shake,
)
from sim.slurm.files import read_site
from sim.slurm.site import Site

CONF = """\
SchedulerParameters=bf_interval=10,bf_continue
PriorityType=priority/multifactor
PriorityWeightAge=100
AccountingStorageEnforce=limits
NodeName=n[1-4] CPUs=2 RealMemory=4000
PartitionName=long Nodes=n[1-2] MaxTime=2-0 PriorityTier=1
PartitionName=all Nodes=ALL PriorityTier=2
"""
QOS = "Name|Priority|MaxTRESPU|MaxJobsPU\nnormal|10|cpu=4|3\n"


def site(conf: str = CONF) -> Site:
    return read_site({"slurm.conf": conf, "qos.txt": QOS}, "here")


def jobs(count: int = 40, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    rows = np.arange(count)
    limit = 60 * random.integers(2, 8, count)
    ids = {
        "job_id": rows.astype(str),
        "group": rows + 1,
        "task": -1,
        "submit_s": 1_700_000_000 + np.sort(random.integers(0, 900, count)),
    }
    held = {"eligible_s": -1, "held_s": -1, "cancel_s": -1, "limit_s": limit, "least_limit_s": limit}
    asked = {"runtime_s": random.integers(30, limit), "cpus": random.integers(1, 5, count), "min_nodes": 1, "max_nodes": 0}
    names = {
        "user": np.where(rows % 3, "u", "v"),
        "account": np.where(rows % 3, "physics", "biology"),
        "partition": "all",
        "qos": "normal",
    }
    rest = {"memory_node": 0, "memory_cpu": 0, "gpus": 0, "features": "", "exclusive": False, "throttle": 0, "after": "", "nice": 0}
    return pd.DataFrame(
        {**ids, **held, **asked, **names, **rest, "reservation": "", "licenses": "", "requeues": False, "killed": False}
    )


def changed(**given: object) -> Changed:
    tried = change(site_change("a change", **given), site(), jobs())
    assert tried is not None
    return tried


def test_settings_take_values_multiples_of_todays_and_of_slurms_defaults() -> None:
    tried = changed(
        slurm={"PriorityWeightAge": "x2", "PriorityMaxAge": "x0.5"}, scheduler={"bf_interval": "x3", "bf_max_job_test": "x0.1"}
    )
    assert tried.site.settings["priorityweightage"] == "200"
    assert tried.site.settings["prioritymaxage"] == "3-12:00:00"  # half of 7 days
    assert (tried.site.scheduler["bf_interval"], tried.site.scheduler["bf_max_job_test"]) == ("30", "50")
    assert tried.lines[-1] == "SchedulerParameters=bf_interval=30,bf_continue,bf_max_job_test=50"


def test_partitions_and_qos_change_by_name_or_all() -> None:
    tried = changed(partitions={"*": {"PriorityTier": 1}, "long": {"MaxTime": "x0.5"}}, qos={"normal": {"MaxTRESPU": "x2"}})
    assert {part.tier for part in tried.site.partitions.values()} == {1}
    assert tried.site.partitions["long"].max_s == 86_400
    assert tried.site.qos["normal"].limits.user == {"cpu": 8, "jobs": 6}
    assert tried.lines == (
        "sacctmgr modify qos normal set MaxTRESPU=cpu=8 MaxJobsPU=6",
        "PartitionName=long Nodes=n[1-2] MaxTime=1-00:00:00 PriorityTier=1",
        "PartitionName=all Nodes=ALL PriorityTier=1",
    )


def test_shorter_limits_kill_what_runs_longer_and_only_that() -> None:
    tried, before = changed(limits="x0.5"), jobs()
    limit = np.maximum(np.ceil(before["limit_s"] / 120) * 60, 60)
    assert (tried.jobs["limit_s"] == limit).all()
    over = before["runtime_s"] > limit
    assert tried.kills == frozenset(before["job_id"][over])
    assert (tried.jobs["killed"] == over).all()
    assert (tried.jobs["runtime_s"] == np.minimum(before["runtime_s"], limit)).all()


def test_nodes_come_with_their_partitions() -> None:
    more = changed(nodes="x1.5").site
    assert len(more.nodes) == 6
    assert len(more.partitions["all"].nodes) == 6


def test_a_reservation_repeats_each_week_and_keeps_its_nodes_free() -> None:
    tried = changed(reservation={"weekday": "Tuesday", "start": "22:20", "hours": 1, "nodes": "n[1-3]"})
    start = replay(tried.site, tried.jobs, 0)
    kept = tried.site.reservations[0]
    inside = (start.start_s < kept.end_s) & (start.start_s + tried.jobs["runtime_s"] > kept.start_s)
    assert inside.any()
    assert all(set(nodes.split(",")) == {"n4"} for nodes in start.nodes[inside])


def test_maintenance_begins_at_the_hour_of_the_sites_clock_in_winter_and_summer() -> None:
    berlin = read_site({"slurm.conf": CONF}, "here", "Europe/Berlin")
    tried = change(site_change("maintenance", reservation={"weekday": "Tuesday", "start": "08:00"}), berlin, jobs())
    assert tried is not None
    kept = tried.site.reservations[0]
    local = [
        pd.Timestamp(start, unit="s", tz="Europe/Berlin") for start, _ in kept.times(kept.start_s, kept.start_s + 30 * 7 * 86_400)
    ]
    assert {(when.day_name(), when.hour, when.minute) for when in local} == {("Tuesday", 8, 0)}
    assert len({when.utcoffset() for when in local}) == 2


def test_waits_are_grouped_by_the_hour_of_the_sites_clock() -> None:
    table, waits = jobs().assign(submit_s=1_700_000_000), np.zeros(40)  # 22:13 in UTC
    hours = by_group(table, Open(waits[None, :], waits, waits == 0, waits == 0), "hour", "Europe/Berlin")
    assert list(hours["value"]) == ["23"]


def test_a_candidate_that_changes_nothing_here_is_none() -> None:
    for each in (
        site_change("as it is", scheduler={"bf_interval": 10}),
        site_change("Slurm's default", slurm={"PriorityMaxAge": "7-0"}),
        site_change("the tier it has", partitions={"all": {"PriorityTier": 2}}),
        site_change("as many", nodes="x1.0"),
    ):
        assert change(each, site(), jobs()) is None


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"partitions": {"al": {"PriorityTier": 1}}}, "no partition al; known: long, all"),
        ({"partitions": {"all": {"Tier": 1}}}, "partition key tier is not known"),
        ({"qos": {"normal": {"MaxWall": 1}}}, "QOS key maxwall is not known"),
        ({"limits": "half"}, "limits = 'half' is not a factor such as x0.5"),
        ({"slurm": {"Licenses": "x2"}}, "Licenses is not stated, so x2 cannot be applied to it"),
        ({"reservation": {"weekday": "Someday"}}, "has an unknown day, time or node"),
        ({"reservation": {"start": "25:00"}}, "has an unknown day, time or node"),
        ({"reservation": {"hours": "all"}}, "has an unknown day, time or node"),
        ({"partitions": {"all": {"MaxTime": "soon"}}}, "MaxTime = 'soon' is not a time"),
        ({"nodes": "x0.5"}, "nodes = 'x0.5' is fewer than the 4 of today"),
        ({"partitions": {"all": {"PriorityTier": "--5"}}}, "prioritytier = '--5' is not a whole number"),
    ],
)
def test_a_wrong_candidate_is_refused_with_its_name(given: dict[str, object], refusal: str) -> None:
    with pytest.raises(InputError, match=f"candidate 'wrong'.*{refusal}"):
        change(site_change("wrong", **given), site(), jobs())


def test_tasks_of_an_array_move_together() -> None:
    table = jobs().assign(group=np.repeat(np.arange(10), 4), eligible_s=np.where(np.arange(40) % 2, 1_700_000_500, -1))
    moved = shaken(table, 60, 3)
    by_s = (moved["submit_s"] - table["submit_s"]).to_numpy()
    assert (by_s.reshape(10, 4) == by_s[::4, None]).all()
    assert len(set(by_s)) > 3
    assert (moved["eligible_s"] == np.where(table["eligible_s"] > 0, table["eligible_s"] + by_s, -1)).all()


def replays(*of: Changed, seeds: int = 4) -> list[np.ndarray]:
    work = Replays(of, 60)
    return [np.stack([work([row, seed])[2] for seed in range(seeds)]) for row in range(len(of))]


FREE = CONF.replace("AccountingStorageEnforce=limits\n", "")


def measured(tried: Changed, nodes: str = "n[1-4]") -> Effect:
    """Return the effect of a change of a site with ``nodes``."""
    today = Changed(site(FREE.replace("n[1-4]", nodes)), jobs(), (), frozenset())
    return effect(today, tried, *replays(today, tried), 60, range(4))


def test_a_change_that_changes_no_start_has_no_effect_and_is_called_the_same() -> None:
    today = Changed(site(FREE), jobs(), (), frozenset())
    renamed, later = today._replace(site=replace(site(FREE), name="renamed")), np.array([[1.0, 3.0]])
    before = np.array([[1.0, np.nan]])
    assert same(today, renamed, before, before)
    assert not same(today, renamed, before, later)
    assert not same(today, changed(limits="x0.5"), before, before)
    compared = measured(renamed)
    assert all((each.relative, each.low, each.high, each.p_here) == (0, 0, 0, 1) for each in compared.metrics.values())
    assert judged({"renamed": compared}) == {"renamed": "not sure"}


def test_more_nodes_lower_waits_and_fewer_raise_them() -> None:
    now = Changed(site(FREE), jobs(), (), frozenset())
    more, less = measured(now, "n[1-2]"), measured(now, "n[1-8]")
    assert more.metrics["mean_wait_s"].relative < -0.3 < 0.3 < less.metrics["mean_wait_s"].relative
    assert judged({"more": more, "less": less}) == {"more": "better here", "less": "worse here"}, "jobs of one day"
    assert sum(each.jobs for each in more.groups if each.by == "account") == 40
    assert all(each.by_s < 0 for each in more.groups if each.by == "account")


def test_jobs_that_no_longer_start_are_counted_and_left_out_of_both() -> None:
    wide = jobs().assign(cpus=np.where(np.arange(40) == 5, 8, 1))
    today, fewer = (Changed(site(FREE.replace("n[1-4]", nodes)), wide, (), frozenset()) for nodes in ("n[1-4]", "n[1-3]"))
    compared = effect(today, fewer, *replays(today, fewer, seeds=2), 60, range(2))
    assert compared.never == 1
    assert sum(each.jobs for each in compared.groups if each.by == "account") == 39


def test_jobs_before_the_time_asked_for_do_not_count() -> None:
    today, more = Changed(site(), jobs(), (), frozenset()), changed(nodes="x2")
    late = int(jobs()["submit_s"].iloc[30])
    compared = effect(today, more, *replays(today, more, seeds=2), 60, range(2), late)
    assert sum(each.jobs for each in compared.groups if each.by == "size") == int((jobs()["submit_s"] >= late).sum())


def with_p(p: float, relative: float = -0.1, cost: float | None = None, here: float | None = None) -> Effect:
    """Return an effect on the mean wait, and perhaps a cost in AWF."""
    wait, other = Measured(9, 10, relative, -0.2, 0.1, p, here), Measured(1, 1, 0, None, None, None)
    awf = other if cost is None else Measured(2, 1, 1, 0.5, 1.5, cost)
    return Effect({"mean_wait_s": wait, "mean_bounded_slowdown": other, "awf_s": awf, "p2sf_s": other}, [], 0)


def test_verdicts_correct_for_all_candidates_together() -> None:
    assert judged({"alone": with_p(0.03)}) == {"alone": "better"}
    assert judged({"one": with_p(0.03), "two": with_p(0.04)}) == {"one": "not sure", "two": "not sure"}
    assert judged({"paid": with_p(0.001, cost=0.001)}) == {"paid": "mixed"}
    assert judged({"longer": with_p(0.001, relative=0.1)}) == {"longer": "worse"}
    assert judged({"in one metric": with_p(0.5, cost=0.03)}) == {"in one metric": "not sure"}


def test_a_rise_counts_as_a_cost_by_its_own_interval_though_the_correction_would_hide_it() -> None:
    effects = {"gain": with_p(0.001, cost=0.04), "others": with_p(0.5, cost=0.5)}
    assert judged(effects)["gain"] == "mixed"
    assert raised(effects["gain"]) == ["awf_s"]
    assert raised(with_p(0.001)) == []


def test_what_is_sure_among_several_has_an_interval_that_excludes_0() -> None:
    random = np.random.default_rng(1)
    base = Ratio(np.ones((8, 1)), np.ones((8, 1)))
    effects = {}
    for name, ratio in (("far", 0.5), ("near", 0.97), ("sham", 1.0)):
        compared = _compared(Ratio(ratio + 0.03 * random.standard_normal((8, 1)), base.denominator), base, (base, base))
        effects[name] = Effect(dict.fromkeys(JUDGED_BY, compared), [], 0)
    for name, verdict in judged(effects).items():
        measure = effects[name].metrics["mean_wait_s"]
        assert measure.high is not None
        assert verdict == "not sure" or measure.high < 0, (name, measure)
    assert judged(effects)["near"] == "better here"


@pytest.mark.parametrize(("wait_s", "runtime_s", "shake_s"), [(50, 60, 5), (3_600, 90, 9), (3_600, 3_600, 60), (0, 60, 1)])
def test_submissions_move_by_at_most_a_tenth_of_waits_and_runtimes(wait_s: int, runtime_s: int, shake_s: int) -> None:
    table = jobs().assign(start_s=jobs()["submit_s"] + wait_s, runtime_s=runtime_s)
    assert usual_shake(table) == shake_s


def test_what_replays_alone_make_sure_is_said_of_these_very_jobs() -> None:
    effects = {"less": with_p(0.4, here=0.001), "more": with_p(0.4, 0.1, here=0.001), "chaos": with_p(0.4, here=0.3)}
    assert judged(effects) == {"less": "better here", "more": "worse here", "chaos": "not sure"}
    assert judged({"sure": with_p(0.001, here=0.001)}) == {"sure": "better"}


def test_over_days_a_change_has_a_p_value_of_these_jobs_too() -> None:
    random = np.random.default_rng(0)
    days = Ratio(random.pareto(1, (8, 6)) + 1, np.ones((8, 6)))
    more = Ratio(days.numerator * (1.2 + 0.01 * random.random((8, 6))), days.denominator)
    users = tuple(Ratio(each.numerator[:, :, None].sum(axis=0), each.denominator[:, :, None].sum(axis=0)) for each in (more, days))
    compared = _compared(more, days, (users[0], users[1]))
    assert compared.p_here == interval_of_replicates(more, days).p
    assert compared.p is not None
    assert compared.p != compared.p_here


def test_few_pairs_and_pairs_that_differ_wildly_give_no_interval() -> None:
    days = Ratio(np.ones((4, 1)), np.ones((4, 1)))
    wild = Ratio(np.array([[1.0], [200.0], [2.0], [4000.0]]), np.ones((4, 1)))
    fewer = [Ratio(each.numerator[:3], each.denominator[:3]) for each in (wild, days)]
    for terms, base in ((wild, days), fewer):
        compared = _compared(terms, base, (terms, base))
        assert (compared.low, compared.high) == (None, None)
        assert compared.relative > 0


def test_sizes_and_lengths_are_listed_as_they_grow() -> None:
    table = pd.DataFrame({"partition": "p", "account": ["b", "a", "a"], "cpus": [20, 5, 1], "runtime_s": [9_000, 5, 90_000]})
    groups = _groups(table, np.array([1.0, 2.0, 3.0]), np.zeros(3))
    assert [(each.by, each.value, each.before_s) for each in groups] == [
        *(("account", "a", 2.5), ("account", "b", 1.0)),
        *(("size", "1 processors or more", 3.0), ("size", "5 processors or more", 2.0), ("size", "17 processors or more", 1.0)),
        *(("length", "under 10 min", 2.0), ("length", "1 to 4 h", 1.0), ("length", "over 24 h", 3.0)),
    ]
