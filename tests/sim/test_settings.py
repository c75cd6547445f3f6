"""The settings of simulations as one value: what it refuses, in one line, and what it comes to."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from features.errors import InputError
from sim import Campaign, run_campaign
from sim.campaigns.windows import LENGTHS_S
from sim.settings import SPLITS
from tests.support.workloads import crowd


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"starvation": 5}, "starvation is unknown; did you mean starvation_s?"),
        ({"schedulers": "EASY"}, "schedulers must be a list, not 'EASY'"),
        ({"schedulers": ()}, "schedulers must name at least one"),
        ({"taus_s": (10.0, float("nan"))}, "taus_s.1 must be a finite number, not nan"),
        ({"starvation_s": (None, -1)}, "starvation_s.1 must be at least 0, not -1"),
        ({"procs": 0}, "procs must be at least 1, not 0"),
        ({"procs": True}, "procs must be a number or text, not True"),
        ({"load": 0.0}, "load must be above 0, not 0.0"),
        ({"squeeze": 1e7}, "squeeze must be at most 1e+06, not 10000000.0"),
        ({"windows": "years"}, "windows must be one of whole, weeks, months, not 'years'"),
        ({"missing_request": "guess"}, "missing_request must be one of drop, runtime, queue-max, not 'guess'"),
        ({"seeds": (3,)}, "seed 3 changes nothing: nothing is random in a schedule with predictions by requested"),
        ({"replicates": 3, "seeds": (1,), "shake_s": 60}, "--replicates and --seed exclude each other"),
        ({"machine": "a.toml", "procs": 5}, "--machine a.toml says how many processors there are: give no --procs"),
        ({"users": "shut"}, "users 'shut': known: open, closed"),
        ({"users": "closed", "dependencies": True}, "users closed and dependencies both say when jobs are submitted"),
    ],
)
def test_what_is_unknown_or_out_of_bounds_is_refused_in_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        Campaign(**given)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_settings_never_change_and_are_equal_where_they_say_the_same() -> None:
    asked = Campaign(schedulers=["EASY", "List"], shake_s=60, replicates=2)  # type: ignore[arg-type]
    assert asked == Campaign(schedulers=("EASY", "List"), shake_s=60, replicates=2)
    assert asked.drawn == (0, 1)
    assert Campaign(schedulers=("slurm",), seeds=(1,)) == Campaign(schedulers=("Slurm",), seeds=(1,))
    with pytest.raises(ValidationError, match="frozen"):
        asked.shake_s = 0


def test_a_campaign_is_simulated_on_the_windows_that_it_names() -> None:
    assert tuple(LENGTHS_S) == SPLITS
    import numpy as np

    load = crowd(np.random.default_rng(1), 30)
    jobs = load.table()
    jobs["submit_s"] += np.arange(len(jobs)) // 10 * 8 * 86_400
    for keep_first, numbers in ((True, [0, 1, 2]), (False, [1, 2])):
        table = run_campaign(jobs, Campaign(windows="weeks", keep_first=keep_first, drop_rule="none"), procs=load.machine)
        assert table["window"].tolist() == numbers
