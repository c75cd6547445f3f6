"""Rules that were planted in a log are found in it, and replays keep to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.clock import Clock
from features.errors import InputError
from features.jobs.schema import conform
from sim.rules.explained import decisions, out_of_hours
from sim.rules.infer import closings, drained, infer, peak, recorded, replayed, seen
from sim.rules.rule import Limit, Rule, closed
from sim.simulate import simulate

HOUR_S, DAY_S = 3600, 86_400
CLOCK = Clock(4 * DAY_S, None)  # second 0 is a Monday
PLANTED = Rule(6, closings=tuple(day * DAY_S + hour * HOUR_S for day in range(7) for hour in (8, 17)), origin_s=4 * DAY_S)


def drawn(count: int = 1200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    requested = rng.choice([600, HOUR_S, 3 * HOUR_S, 8 * HOUR_S], count)
    columns = {
        "job_id": np.arange(1, count + 1),
        "submit_s": np.sort(rng.integers(0, 60 * DAY_S, count)),
        "runtime_s": np.maximum((requested * rng.random(count)).astype(np.int64), 1),
        "procs": rng.integers(1, 5, count),
        "requested_s": requested,
        "user": rng.choice(np.array(["a", "b", "c"], object), count),
        "queue": rng.choice(np.array(["day", "night"], object), count),
    }
    return conform(columns, count).astype(dict.fromkeys(list(columns)[:5], "int64"))


def record(rule: Rule) -> pd.DataFrame:
    jobs = drawn()
    return jobs.assign(wait_s=replayed(rule, jobs).astype(np.int64))


def test_a_replay_keeps_to_closings_hours_and_limits_and_starts_every_job() -> None:
    rule = replace(PLANTED, hours=(("night", (20, 21, 22, 23, 0, 1)),), limits=(Limit(("user",), "processors", 4),))
    log = recorded(record(rule), 6, CLOCK)
    assert (log.wait_s >= 0).all()
    assert not out_of_hours(rule, log).any()
    night = (log.jobs["queue"] == "night").to_numpy()
    opened = np.isin(log.start_s[night] % DAY_S // HOUR_S, rule.hours[0][1])
    assert opened[log.start_s[night] < log.jobs["submit_s"].max()].all()
    for user in "abc":
        mine = (log.jobs["user"] == user).to_numpy()
        assert peak(log.start_s[mine], log.end_s[mine], log.jobs["procs"].to_numpy()[mine], 1 << 60) <= 4


def test_without_hours_and_limits_a_rule_is_the_pool() -> None:
    jobs = drawn(300)
    pool = simulate(jobs, procs=5).jobs
    assert replayed(Rule(5), jobs).tolist() == (pool["start_s"] - pool["submit_s"]).tolist()


def test_closings_are_read_from_the_starts_alone() -> None:
    log = recorded(record(PLANTED), 6, CLOCK)
    begins = log.start_s
    times = closings(begins, log.jobs["requested_s"].to_numpy(np.int64), least=5)
    assert set(PLANTED.closings) <= set(times)
    free = recorded(record(Rule(6)), 6, CLOCK)
    assert closings(free.start_s, free.jobs["requested_s"].to_numpy(np.int64), least=5) == ()


def test_a_rule_that_drains_has_closings_and_no_limits() -> None:
    planted = replace(PLANTED, procs=40, limits=(Limit(("user",), "processors", 16),))
    jobs = drawn(8000)
    inferred = infer(recorded(jobs.assign(wait_s=replayed(planted, jobs).astype(np.int64)), 40, CLOCK, 1.0), drains=True).rule
    assert set(planted.closings) <= set(inferred.closings)
    assert replace(inferred, closings=(), algorithm="EASY") == Rule(40, origin_s=planted.origin_s)
    free = replace(planted, closings=())
    log = recorded(jobs.assign(wait_s=replayed(free, jobs).astype(np.int64)), 40, CLOCK, 1.0)
    assert infer(log, drains=True).rule == Rule(40, origin_s=planted.origin_s)


@pytest.mark.slow
def test_closings_are_changed_only_where_others_are_nearer() -> None:
    jobs = drawn(8000)
    planted = replace(PLANTED, procs=40)

    def closings_of(rule: Rule, since: Rule | None, until_s: int = 1 << 60) -> tuple[int, ...]:
        start = jobs["submit_s"].to_numpy(np.int64) + replayed(rule, jobs).astype(np.int64)
        inferred = drained(jobs, 40, CLOCK, start, start + jobs["runtime_s"].to_numpy(np.int64), until_s, since)
        return inferred.closings if inferred else ()

    assert closings_of(planted, planted) == planted.closings
    assert set(planted.closings) < set(closings_of(planted, None)), "half an hour beside is read from the starts as well"
    assert set(planted.closings) <= set(closings_of(planted, replace(planted, closings=planted.closings[:-1])))
    assert closings_of(replace(planted, closings=()), planted) == ()
    assert closings_of(planted, None, until_s=DAY_S) == (), "jobs that end later are not looked at"
    assert closed(planted.text, 40) == planted
    assert closed("EASY", 40) is None


def test_a_log_decided_by_the_rule_is_explained_by_it() -> None:
    log = recorded(record(PLANTED), 6, CLOCK)
    checked = decisions(PLANTED, log, moments=30)
    assert checked.starts > 0
    assert checked.explained == 1
    assert decisions(Rule(6, "List"), log, moments=30).explained < 1


def test_what_starts_show_is_of_the_first_part_alone() -> None:
    log = recorded(record(PLANTED), 6, CLOCK)
    later = log.start_s.copy()
    later[log.first :] += 5 * DAY_S
    changed = replace(log, start_s=later, end_s=log.end_s + (later - log.start_s))
    assert seen(log, Rule(6)) == seen(changed, Rule(6))


def test_a_log_without_waits_is_refused() -> None:
    with pytest.raises(InputError, match="states no waits"):
        recorded(drawn().assign(wait_s=0), 6, CLOCK)


def test_a_log_too_short_to_infer_a_rule_from_is_refused() -> None:
    with pytest.raises(InputError, match="23 jobs had started when 60% were submitted: a rule is inferred from 50"):
        recorded(drawn(40).assign(wait_s=1), 6, CLOCK)


def test_a_planning_scheduler_is_refused_with_hours() -> None:
    with pytest.raises(InputError, match="knows no hours"):
        replayed(replace(PLANTED, algorithm="Conservative"), drawn(50))
