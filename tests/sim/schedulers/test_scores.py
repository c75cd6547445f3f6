"""Orders by a formula: every formula orders as plain Python says, and what is no formula is refused in one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.clock import Clock
from features.errors import InputError
from sim import simulate
from sim.campaigns.learned_order import MEASURED, PreparedSweep
from sim.metrics.schedule_metrics import evaluate
from sim.policy import Policy
from sim.schedulers.names import scheduler
from sim.schedulers.scores import FEATURES, score
from tests.oracle.scheduler import Formula
from tests.support.workloads import Workload, columns, crowd, workloads

LOAD = crowd(np.random.default_rng(7), size=120, machine=32)

Value = Callable[[dict[str, float]], float]
Written = tuple[str, Value]
"""A formula as text and as plain Python."""


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _power(a: float, b: float) -> float:
    if a == 0.0 and b < 0.0:
        return math.inf
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        return math.nan


def _exp(a: float) -> float:
    return math.exp(a) if a < 709.0 else math.inf


TWO: dict[str, Callable[[float, float], float]] = {
    "({}+{})": lambda a, b: a + b,
    "({}-{})": lambda a, b: a - b,
    "({}*{})": lambda a, b: a * b,
    "({}/{})": lambda a, b: a / b if b else 0.0,
    "({}**{})": _power,
    "min({},{})": min,
    "max({},{})": max,
    "({}<{})": lambda a, b: float(a < b),
    "({}>={})": lambda a, b: float(a >= b),
}
ONE: dict[str, Callable[[float], float]] = {
    "log({})": lambda a: math.log(max(a, 1e-9)),
    "sqrt({})": lambda a: math.sqrt(max(a, 0.0)),
    "tanh({})": math.tanh,
    "exp(-{})": lambda a: _exp(-a),
    "abs({})": abs,
    "(-{})": lambda a: -a,
}


def _leaf(text: str) -> Written:
    return (text, lambda seen: seen[text]) if text in FEATURES else (text, lambda seen: float(text))


def _of_one(form: str, part: Written) -> Written:
    return form.format(part[0]), lambda seen: _number(ONE[form](part[1](seen)))


def _of_two(form: str, a: Written, b: Written) -> Written:
    return form.format(a[0], b[0]), lambda seen: _number(TWO[form](a[1](seen), b[1](seen)))


def _where(condition: Written, a: Written, b: Written) -> Written:
    return f"where({condition[0]},{a[0]},{b[0]})", lambda seen: a[1](seen) if condition[1](seen) else b[1](seen)


formulas = st.recursive(
    st.sampled_from([*FEATURES, "n", "r", "wait", "2", "0.5", "100"]).map(_leaf),
    lambda part: st.one_of(
        st.builds(_of_one, st.sampled_from(list(ONE)), part),
        st.builds(_of_two, st.sampled_from(list(TWO)), part, part),
        st.builds(_where, part, part, part),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    workloads(),
    formulas,
    st.sampled_from(["EASY-SPF", "JustBF", "List", "EASY(reservations=2)-LAF"]),
    st.sampled_from([{}, {"starvation_s": 50}, {"semantics": "per-event", "correction": "tsafrir"}]),
)
@example(crowd(np.random.default_rng(3), size=60, machine=16), _of_two("({}-{})", _leaf("n"), _leaf("wait")), "EASY-SPF", {})
def test_any_formula_orders_as_plain_python_does(load: Workload, formula: Written, behind: str, policy: dict[str, Any]) -> None:
    text, value = formula
    algorithm, *backfill = behind.split("-")
    reservations = 2 if "reservations" in algorithm else 1
    oracle = {"order": Formula(value), "algorithm": algorithm.split("(")[0], "reservations": reservations}
    oracle["backfill"] = backfill[0] if backfill else oracle["order"]
    schedule = load.schedule(f"SCORE({text})-{behind}", **policy)
    assert columns(schedule) == load.by_oracle(**oracle, estimates=load.estimates, **policy)


def test_the_hour_is_that_of_the_wall_clock() -> None:
    """Jobs of one second, one processor; before two by the clock the last submitted goes first."""
    load = Workload(1, [0, 1, 2, 3], [3600, 1, 1, 1], [1] * 4, [3600, 1, 1, 1], [None] * 4, [3600, 1, 1, 1])
    for origin, starts in ((0, [0, 3602, 3601, 3600]), (3600, [0, 3600, 3601, 3602])):
        schedule = simulate(
            load.table(), procs=1, scheduler="SCORE(where(hour < 2, wait, -wait))-EASY-SPF", clock=Clock(origin, None)
        )
        assert schedule.jobs["start_s"].tolist() == starts


def test_a_score_says_what_it_uses_and_whether_its_order_changes() -> None:
    assert str(score("R ** A * n; a = 2")) == "r**a*n;a=2.0"
    assert score("r*n-2*wait").features() == ["n", "r", "wait"]
    unchanging = ["r*n", "r*n-a*wait;a=2", "(wait+log(r))/procs", "-wait", "3"]
    changing = ["wait*r", "wait/r", "log(wait)", "where(wait<5,n,r)", "min(wait,r)", "free", "r*queue", "n+hour", "1/wait"]
    assert [score(text).changes for text in unchanging + changing] == [False] * len(unchanging) + [True] * len(changing)
    assert score("a*r+b*n;a=1;b=2").with_values([3, 4.5]).values == (3.0, 4.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r*m", "'m' at letter 3 is not a feature"),
        ("r+", "the end is not expected"),
        ("", "the end is not expected"),
        ("r;a=1", "parameter a is not in the formula"),
        ("r*a;a=x", "parameter a is 'x', not a number"),
        ("r*a;a=nan", "not a finite number"),
        ("r*a;a=1;a=2", "option a is given twice"),
        ("r*n;n=2", "not of the form NAME=VALUE"),
        ("r*log;log=2", "not of the form NAME=VALUE"),
        ("min(r)", "'min' at letter 1 has 1 values, and takes 2"),
        ("__import__('os')", "'__import__' at letter 1 is not a function"),
        ("r.real", "'r' at letter 1 begins 'r.real', which"),
        ("(lambda: 1)()", "a score cannot have"),
        ("r and n", "cannot have"),
        ("1 < r < 3", "cannot have"),
        ("'text'", "is not a number"),
        ("1e999", "not a finite number"),
        ("(" * 500 + "r" + ")" * 500, "nested too deep"),
        ("+".join(["r"] * 2000), "nested too deep"),
        ("+".join(["(" + "+".join(["r"] * 30) + ")"] * 50), "is longer than"),
        ("r*" * 20_000 + "r", "at most 20,000 letters"),
        ("r*n#+1e6*wait", "a formula cannot contain '#'"),
        ("r*n#;a=1", "a formula cannot contain '#'"),
        ("r*a;a=1#2", "a formula cannot contain '#'"),
        ("r*\\\nn", "a formula cannot contain"),
        ("(r*\nn)", "a formula cannot contain"),
        ("r\f*n", "a formula cannot contain"),
        ("\uff52*n", "unknown scheduler"),
        ("ma\u017f*n;ma\u017f=2", "unknown scheduler"),
        ("r*\u0663", "unknown scheduler"),
    ],
)
def test_what_is_no_score_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        scheduler(f"SCORE({text})-EASY-SPF")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    "policy",
    [
        {"predictor": "requested"},
        {"predictor": "last2", "correction": "tsafrir", "semantics": "per-event"},
        {"predictor": "requested", "starvation_s": 300},
        {"predictor": "last2", "easy": "EASY(plans=requested)"},
    ],
    ids=lambda policy: " ".join(map(str, policy.values())),
)
@pytest.mark.parametrize("formula", ["r**a*n**b", "a*log(r)+b*log(n)-log(wait+100)*queue"])
def test_a_sweep_over_parameters_agrees_with_simulations_one_by_one(formula: str, policy: dict[str, Any]) -> None:
    values = np.random.default_rng(5).uniform(-2.0, 2.0, (5, 2))
    name = f"SCORE({formula};a={{!r}};b={{!r}})-{policy.get('easy', 'EASY')}-SPF"
    policy = {name: value for name, value in policy.items() if name != "easy"}
    prepared = PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=Policy(name.format(1, 1), **policy), taus_s=(60.0, 10.0))
    swept = prepared.measure(values)
    schedules = [LOAD.schedule(name.format(*row), **policy) for row in values.tolist()]
    for tau_s in (60.0, 10.0):
        metrics = swept.rename(columns={f"mean_bounded_slowdown_{tau_s:g}": "mean_bounded_slowdown"})[list(MEASURED)]
        expected = [evaluate(each, tau_s=tau_s)[list(MEASURED)].tolist() for each in schedules]
        np.testing.assert_allclose(metrics.to_numpy(), expected, rtol=1e-12)
    assert swept["mean_wait_s"].nunique() > 1
