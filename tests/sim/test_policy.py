"""Arguments in Python are checked as the command's are, and one scheduler in other letters is no other policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from features.errors import InputError
from sim import simulate
from sim.schedulers.names import spelled
from sim.settings import Campaign
from tests.support.workloads import crowd


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
