"""Passes that no event causes: when a prediction expires, and every so many seconds. Against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from pipelines.cli.simulate import as_row
from sim import simulate
from sim.campaigns.campaign import run_campaign
from sim.campaigns.sweep import sweep
from sim.kernel.corrections import CORRECTIONS
from sim.policy import Policy
from sim.semantics import SEMANTICS, Semantics, semantics
from sim.settings import Campaign
from tests.support.workloads import (
    CONSERVATIVE,
    EASY_NAMES,
    PREDICTORS,
    TABLE_CORRECTIONS,
    Moody,
    Workload,
    agree,
    by_kernel,
    crowd,
    dependent_workloads,
    schedulers,
    workloads,
)

OPTIONS = ["expiry=pass", "every={}", "expiry=pass,every={}"]
timed = st.builds("{}({})".format, st.sampled_from(SEMANTICS), st.sampled_from(OPTIONS))
parts = st.sampled_from([1, 3, 10, 19])
starvation = st.sampled_from([None, 0, 3, 50])


def semantics_for(load: Workload, name: str, part: int) -> str:
    """The timer is due ``part`` times or so while the longest job runs, so that it is due often and no simulation takes long."""
    return name.format(1 + max(load.requested) // part)


@pytest.mark.slow
@settings(max_examples=125)
@given(workloads(), schedulers, st.sampled_from(PREDICTORS), timed, parts, st.sampled_from(TABLE_CORRECTIONS), starvation)
def test_on_any_small_workload_as_in_plain_python(
    load: Workload, scheduler: str, predictor: str | None, name: str, part: int, correction: str, starvation_s: int | None
) -> None:
    agree(load, scheduler, predictor, semantics=semantics_for(load, name, part), correction=correction, starvation_s=starvation_s)


@pytest.mark.slow
@settings(max_examples=120)
@given(
    workloads(most=60),
    st.sampled_from(["FCFS-EASY", "FCFS-EASY-SPF", "SEXP-JustBF"]),
    timed,
    parts,
    st.sampled_from(TABLE_CORRECTIONS),
)
def test_outlived_predictions_as_in_plain_python(load: Workload, scheduler: str, name: str, part: int, correction: str) -> None:
    agree(load, scheduler, semantics=semantics_for(load, name, part), correction=correction)


@pytest.mark.slow
@settings(max_examples=100)
@given(
    dependent_workloads(),
    st.sampled_from(["FCFS-EASY", "SAF-EASY-SPF", "FCFS-JustBF"]),
    timed,
    parts,
    st.sampled_from(TABLE_CORRECTIONS),
)
def test_where_jobs_follow_others_as_in_plain_python(load: Workload, scheduler: str, name: str, part: int, correction: str) -> None:
    agree(load, scheduler, semantics=semantics_for(load, name, part), correction=correction, dependencies=True)


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), schedulers, timed, parts, st.integers(0, 99))
def test_a_predictor_that_changes_its_mind_as_in_plain_python(
    load: Workload, scheduler: str, name: str, part: int, seed: int
) -> None:
    agree(load, scheduler, Moody(seed), semantics=semantics_for(load, name, part), correction="conditional")


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), st.sampled_from(EASY_NAMES), timed, parts, st.sampled_from(sorted(CORRECTIONS)), st.integers(1, 3))
def test_a_predictor_that_learns_as_in_plain_python(
    load: Workload, scheduler: str, name: str, part: int, correction: str, reservations: int
) -> None:
    scheduler = scheduler.replace("EASY", f"EASY(reservations={reservations})")
    agree(load, scheduler, "last2", semantics=semantics_for(load, name, part), correction=correction)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["FCFS-EASY", "FCFS-EASY-SPF", "SAF-JustBF", CONSERVATIVE, "LEXP-EASY-SPF"])
@pytest.mark.parametrize("base", SEMANTICS)
def test_on_a_busy_machine_they_start_other_jobs(scheduler: str, base: str) -> None:
    load = crowd(np.random.default_rng(11), longest_s=3000, origin_s=1_000_001)
    plain = by_kernel(load, scheduler, semantics=base, correction="tsafrir")
    for options in OPTIONS:
        made = agree(load, scheduler, semantics=semantics_for(load, f"{base}({options})", 40), correction="tsafrir")
        assert made.start != plain.start


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("per-second", Semantics()),
        ("per-event", Semantics(per_event=True)),
        ("per-second(expiry=plan)", Semantics()),
        ("per-event(every=30)", Semantics(per_event=True, every_s=30)),
        ("per-second( every = 5 , expiry = pass )", Semantics(False, True, 5)),
    ],
)
def test_names_become_settings(name: str, read: Semantics) -> None:
    assert semantics(name) == read


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "per-minute",
            "unknown semantics 'per-minute'; known: per-second, per-event, with options as in per-second(expiry=pass,every=30)",
        ),
        ("per-second(", "unknown semantics 'per-second('; did you mean per-second?"),
        ("per-second()", "unknown semantics 'per-second()'; did you mean per-second?"),
        ("per-second(each=3)", "semantics per-second(each=3): unknown option 'each'; known: expiry, every"),
        ("per-event(expiry=never)", "semantics per-event(expiry=never): expiry=never; known: plan, pass"),
        ("per-second(every=0)", "semantics per-second(every=0): every=0: must be a finite number, at least 1, at most 1e+09"),
        ("per-second(every=1.5)", "semantics per-second(every=1.5): every=1.5: must be a whole number"),
        ("per-second(every)", "semantics per-second(every): 'every' is not of the form option=value"),
    ],
)
def test_anything_else_is_refused_with_what_is_known(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        crowd(np.random.default_rng(0), size=2).schedule("EASY", semantics=name)
    assert str(error.value).startswith(message)


def test_schedules_campaigns_and_sweeps_go_by_the_name_as_typed() -> None:
    load, name = crowd(np.random.default_rng(3), longest_s=3000, origin_s=77), "per-second(expiry=pass,every=30)"
    alone = simulate(load.table(), procs=load.machine, predictor="last2", correction="tsafrir", semantics=name)
    assert as_row(alone, 10.0)["semantics"] == name  # a line of JSON
    rows = run_campaign(
        load.table(),
        Campaign(schedulers=("EASY",), predictors=("last2",), corrections=("tsafrir",), semantics=(name,)),
        procs=load.machine,
    )
    wait_s = float((alone.jobs["start_s"] - alone.jobs["submit_s"]).mean())
    assert (rows["semantics"].tolist(), rows["mean_wait_s"].tolist()) == ([name], [wait_s])
    policy = Policy("MIXED(0,0,1)-EASY-FCFS", "last2", "tsafrir", name)
    swept = sweep(load.table(), [(0, 0, 1)], procs=load.machine, policy=policy)
    assert swept["mean_wait_s"][0] == pytest.approx(wait_s)
