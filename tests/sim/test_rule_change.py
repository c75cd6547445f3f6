"""Changes of an inferred rule, and what it leaves unexplained."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from features.errors import InputError
from sim.rule_change import change_rule, fits
from sim.rules.rule import Limit, Rule
from sim.site_change import Candidate
from sim.unexplained import Unexplained, bounded
from sim.what_if import Effect, Measured

RULE = Rule(10, closings=(5,), hours=(("night", (1, 2)),), queues=(("night", 4),), limits=(Limit(("user",), "jobs", 3),))


def changed(**given: object) -> Rule | None:
    change = change_rule(Candidate("a change", **given), RULE, pd.DataFrame())  # type: ignore[arg-type]
    return None if change is None else change.site  # type: ignore[return-value]


def test_parts_of_a_rule_go_and_limits_of_users_are_multiplied() -> None:
    assert changed(inferred={"closings": "none"}) == replace(RULE, closings=())
    assert changed(inferred={"limits": "x0.5"}) == replace(RULE, limits=(Limit(("user",), "jobs", 2),))
    assert changed(nodes="x1.1") == replace(RULE, procs=11)
    assert changed(inferred={"scheduler": "EASY"}) is None


def test_a_scheduler_that_plans_ahead_is_tried_without_hours_and_says_so() -> None:
    change = change_rule(Candidate("plans", inferred={"scheduler": "Conservative"}), RULE, pd.DataFrame())
    assert change is not None
    assert change.site == replace(RULE, algorithm="Conservative", closings=(), hours=())
    assert change.lines == ("# scheduler: Conservative", "# closings: none", "# queues with hours: none")


@pytest.mark.parametrize(
    ("inferred", "refusal"),
    [({"closing": "none"}, "did you mean closings"), ({"queues": "x2"}, "'x2' is not none"), ({"limits": "half"}, "no factor")],
)
def test_a_wrong_change_of_a_rule_is_refused(inferred: dict[str, str], refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        changed(inferred=inferred)


def test_candidates_of_slurm_and_of_rules_are_told_apart() -> None:
    slurm, rule, both = Candidate("s", slurm={"a": 1}), Candidate("r", inferred={"limits": "x2"}), Candidate("b", nodes="x2")
    assert [fits(each, rule=True) for each in (slurm, rule, both)] == [False, True, True]
    assert [fits(each, rule=False) for each in (slurm, rule, both)] == [True, False, True]


def test_what_is_unexplained_widens_an_interval_until_nothing_is_sure() -> None:
    def bound(record: float, low: float, high: float) -> Measured:
        left = Unexplained(0.5, {"mean_wait_s": Measured(record, 1, record - 1, low - 1, high - 1, 0.5)})
        effect = Effect({"mean_wait_s": Measured(0.5, 1, -0.5, -0.6, -0.375, 0.001, 0.001)}, [], 0)
        return bounded(effect, left).metrics["mean_wait_s"]

    exact = bound(1, 1, 1)
    assert (exact.low, exact.high, exact.p) == (pytest.approx(-0.6), pytest.approx(-0.375), 0.001)
    assert exact.p_here is None
    for record in (1.25, 0.8):  # a record above its replays limits as much as one below
        off = bound(record, record, record)
        assert (off.low, off.high, off.p) == (pytest.approx(-0.68), pytest.approx(-0.21875), 0.001)
    assert bound(2, 2, 2).p == 1
    assert bound(1, 0.4, 2.5).p == 1  # right in the mean, but not over the weeks
    assert bound(0, 0, 0).low is None
