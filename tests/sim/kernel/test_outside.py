"""Start decisions inside the compiled simulator: the oracle's starts, and the oracle's questions, each asked of the same job at the same second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import Schedule, simulate
from sim.policy import SEMANTICS
from tests.oracle import scheduler as oracle
from tests.oracle.decisions import Whim, decided
from tests.support.fresh import seeds
from tests.support.workloads import Workload, cases, crowd, crowds, dependent_workloads, workloads

whims = st.builds(Whim, st.integers(0, 99), st.sampled_from([10, 30, 60, 90, 100]))
limits = st.integers(0, 4)


def asking(load: Workload, scheduler: str, decision: Any, skips: int = 10, predictor: Any = None, **policy: Any) -> Schedule:
    """The compiled simulator's schedule when ``decision`` is asked."""
    return load.schedule(f"{scheduler}+RUSH(skips={skips})", predictor, start_decision=decision, **policy)


def agree(load: Workload, scheduler: str, whim: Whim, skips: int = 10, predictor: Any = None, **policy: Any) -> Whim:
    """Check that kernel and oracle ask the same and start the same; returns what was said."""
    oracle_whim = Whim(whim.seed, whim.percent)
    jobs = decided(load, scheduler, oracle_whim, skips=skips, predictor=predictor, **policy)
    heard = Whim(whim.seed, whim.percent)
    schedule = asking(load, scheduler, heard, skips, predictor, **policy)
    assert heard.answers == oracle_whim.answers
    assert schedule.jobs["start_s"].tolist() == [job.start for job in jobs]
    assert schedule.jobs["corrections"].tolist() == [job.corrections for job in jobs]
    return oracle_whim


# Against the oracle


@pytest.mark.slow
@settings(max_examples=30)
@given(cases(st.one_of(workloads(), dependent_workloads(), crowds(30))), whims, limits)
def test_any_small_workload(case: tuple[Workload, str, Any, dict], whim: Whim, skips: int) -> None:
    load, scheduler, predictor, policy = case
    agree(load, scheduler, whim, skips, predictor, **policy)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["Strict", "List", "JustBF", "EASY"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_where_the_order_depends_on_who_waits(algorithm: str, semantics: str) -> None:
    order = "SCORE(r*n-queue*wait)"
    scheduler = f"{order}-{algorithm}" + (f"-{order}" if algorithm == "EASY" else "")
    by_queue = oracle.Formula(lambda seen: seen["r"] * seen["n"] - seen["queue"] * seen["wait"])
    policy: dict[str, Any] = dict.fromkeys(("order", "backfill"), by_queue)
    for seed in seeds(4):
        load, oracle_whim, heard = crowd(np.random.default_rng(seed), size=60, machine=16), Whim(seed, 40), Whim(seed, 40)
        jobs = decided(load, f"FCFS-{algorithm}", oracle_whim, skips=3, semantics=semantics, **policy)
        schedule = asking(load, scheduler, heard, 3, semantics=semantics)
        assert (heard.answers, schedule.jobs["start_s"].tolist()) == (oracle_whim.answers, [job.start for job in jobs])


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("scheduler", ["FCFS-EASY-FCFS", "WFP3-EASY-SAF", "FCFS-List"])
def test_crowds_with_queues_of_hundreds(scheduler: str, semantics: str) -> None:
    load = crowd(np.random.default_rng(5), size=340, machine=64)
    burst = replace(load, submit=(1_000_000 + np.array(load.submit) // 20).tolist())
    answers = agree(burst, scheduler, Whim(1, 50), 2, semantics=semantics).answers
    assert min(answer.now_s for answer in answers) == 1_000_000
    assert sum(answer.skipped for answer in answers) > 200


LOAD = Workload(10, [0], [10], [10], [10], ["u"], [10])


# Names and refusals


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("EASY+RUSH(skips=-1)", "skips=-1: must be a finite number, at least 0"),
        ("EASY+RUSH(skips=two)", "skips=two: 'two' is not a number"),
        (
            "EASY+RUSH(threshold=3)",
            "RUSH: unknown option 'threshold'; known: model, skips, patience, every, cutoff",
        ),
        ("EASY+RUSH(model=m,cutoff=1.5)", "cutoff=1.5: must be a finite number, at least 0, at most 1"),
        ("EASY+RUSH(model=m,cutoff=half)", "cutoff=half: 'half' is not a number"),
        ("EASY+RUSH(model=oracle,cutoff=0.5)", "oracle gives no probability, so cutoff has no effect"),
        ("EASY+RUSH(skips=1,skips=2)", "RUSH: option skips is given twice"),
        ("EASY+RUSH(model=)", "RUSH: 'model=' is not of the form option=value"),
        ("EASY+RUSH(5)", "RUSH: '5' is not of the form option=value"),
        ("EASY+CRUSH", "unknown scheduler"),
        ("+RUSH(skips=3)", "unknown scheduler"),
        ("EASY+RUSH(skips=3", "unknown scheduler"),
        ("EASY+RUSH+RUSH", "unknown scheduler"),
    ],
)
def test_other_names_are_refused_in_one_line(name: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        simulate(LOAD.table(), procs=10, scheduler=name, start_decision=Whim())
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
