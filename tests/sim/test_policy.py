"""A policy from arguments in Python, and passes that no event causes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from features.errors import InputError
from sim import simulate
from sim.policy import SEMANTICS, Semantics, semantics
from sim.schedulers.names import spelled
from sim.settings import Campaign
from tests.support.workloads import CONSERVATIVE, agree, by_kernel, crowd


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"starvation_s": 3600.5}, "starvation_s must be a whole number, not 3600.5"),
        ({"starvation_s": True}, "starvation_s must be a whole number, not True"),
        ({"starvation_s": -1}, "starvation_s must be at least 0"),
        ({"dependencies": "no"}, "dependencies must be true or false, not 'no'"),
        ({"seed": 1.5}, "seed must be a whole number, not 1.5"),
        ({"shake_s": 60.0}, "shake_s must be a whole number, not 60.0"),
        ({"scheduler": 5}, "scheduler must be a string, not 5"),
        ({"semantics": None}, "semantics must be a string, not None"),
    ],
)
def test_a_value_of_another_type_is_refused(given: dict[str, Any], error: str) -> None:
    load = crowd(np.random.default_rng(1), size=5, machine=4)
    with pytest.raises(InputError, match=f"^{error}"):
        simulate(load.table(), procs=4, **given)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("easy", "EASY"),
        ("Easy-sjbf", "EASY-SJBF"),
        ("saf-JUSTBF", "SAF-JustBF"),
        ("harm(scenarios=4)+rush(skips=2)", "Harm(scenarios=4)+RUSH(skips=2)"),
        ("score(r**a*n;a=2)-easy-spf", "SCORE(r**a*n;a=2)-EASY-SPF"),
        ("slurm", "Slurm"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_scheduler_is_spelled_in_one_way(given: str, name: str) -> None:
    assert spelled(given) == name
    if name not in ("nonsense", "Slurm"):
        assert Campaign(schedulers=(given,)).schedulers == (name,)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["FCFS-EASY-SPF", "SAF-JustBF", CONSERVATIVE])
@pytest.mark.parametrize("base", SEMANTICS)
def test_on_a_busy_machine_they_start_other_jobs(scheduler: str, base: str) -> None:
    load = crowd(np.random.default_rng(11), longest_s=3000, origin_s=1_000_001)
    plain = by_kernel(load, scheduler, semantics=base, correction="tsafrir")
    every_s = 1 + max(load.requested) // 40
    for options in ("expiry=pass", f"every={every_s}", f"expiry=pass,every={every_s}"):
        assert agree(load, scheduler, semantics=f"{base}({options})", correction="tsafrir").start != plain.start


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
