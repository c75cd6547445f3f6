"""A verdict weighs slowdown, AWF, P²SF and the longest wait together, and claims only what is sure."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.metrics.verdict import WEIGHED, Verdict, verdict

BASE, SJBF, HARM = ("EASY", "requested", "requested"), ("EASY-SJBF", "last2", "tsafrir"), ("Harm", "quantile", "requested")
BOUND, RECORDED = ("EASY-SJBF", "clairvoyant", "requested"), ("recorded", "", "")
SURE, UNSURE = 1e-9, 0.5


def table(changes: dict, replicates: int = 20) -> pd.DataFrame:
    """Rows of a comparison: of each combination four changes and their p-values, with intervals around the changes."""
    rows = []
    for key, values in {BASE: [(0.0, np.nan)] * 4, **changes}.items():
        for metric, (relative, p) in zip(WEIGHED, values, strict=True):
            reach = np.nan if np.isnan(p) else abs(relative) * (0.5 if p < 0.05 else 1.5)
            rows.append((*key, metric, relative, relative - reach, relative + reach, p, replicates, ""))
    columns = ["scheduler", "predictor", "correction", "metric", "relative", "low", "high", "p", "replicates", "note"]
    return pd.DataFrame(rows, columns=columns)


changes_of_one = st.lists(
    st.tuples(st.floats(-0.9, 12.0), st.one_of(st.floats(1e-12, 1.0), st.just(np.nan))), min_size=4, max_size=4
)
tables = st.dictionaries(st.sampled_from([SJBF, HARM, BOUND, RECORDED]), changes_of_one, min_size=1)


@pytest.mark.slow
@settings(max_examples=12)
@given(tables, st.integers(1, 3))
def test_the_best_surely_lowers_slowdown_raises_nothing_and_can_be_done(changes: dict, replicates: int) -> None:
    asked = table(changes, replicates)
    judged = verdict(asked, BASE[:2])
    if judged.best is None:
        return
    assert judged.best in {SJBF, HARM}
    assert (replicates > 1, judged.worse[judged.best]) == (True, ())
    assert changes[judged.best][0][0] < 0
    assert changes[judged.best][0][1] <= 0.05
    assert not any(relative > 0 and p < 0.05 for relative, p in changes[judged.best])


def best_of(changes: dict, replicates: int = 20) -> Verdict:
    return verdict(table(changes, replicates))


CASES = {
    "one that raises slowdown comes next to the baseline, and makes no family": (
        {SJBF: [(0.06, UNSURE), (0.01, UNSURE), (0.02, SURE), (0.1, UNSURE)]},
        None,
        "EASY-SJBF / last2 has the next lowest slowdown (+6.0 %), but it raises P²SF (+2.0 %). "
        "Changes are against EASY / requests; sure means at 95 %, over 20 replays.",
    ),
    "a lower slowdown and nothing worse is best": (
        {SJBF: [(-0.2, SURE), (0.01, UNSURE), (-0.02, UNSURE), (0.1, UNSURE)]},
        SJBF,
        "EASY-SJBF / last2 is the best; it surely lowers slowdown (−20.0 % [−30.0, −10.0]). Not sure: AWF",
    ),
    "much the lowest slowdown is not best at the cost of fairness, and the cost is named with its size": (
        {SJBF: [(-0.2, SURE)] + [(0.0, UNSURE)] * 3, HARM: [(-0.6, SURE), (0.0, UNSURE), (10.9, SURE), (0.0, UNSURE)]},
        SJBF,
        "Harm / quantile has the lowest slowdown (−60.0 %), but it raises P²SF (+1,090.0 %).",
    ),
    "a cost need not survive the correction for many": (
        {
            SJBF: [(-0.2, SURE)] + [(0.0, UNSURE)] * 3,
            HARM: [(-0.6, SURE), (0.0, UNSURE), (0.0, UNSURE), (1.0, 0.03)],
        },
        SJBF,
        "Harm / quantile has the lowest slowdown (−60.0 %), but it raises longest wait (+100.0 % [+50.0, +150.0]).",
    ),
    "a longest wait is a cost as well": (
        {HARM: [(-0.6, SURE), (0.0, UNSURE), (0.0, UNSURE), (2.0, SURE)]},
        None,
        "Harm / quantile is not better than EASY / requests in all that is weighed.",
    ),
    "nothing sure is an answer": (
        {SJBF: [(-0.2, UNSURE)] * 4},
        None,
        "EASY-SJBF / last2 has the lowest slowdown (−20.0 % [−50.0, +10.0]), which is not sure.",
    ),
    "what knows the runtimes and what was recorded cannot be chosen": (
        {BOUND: [(-0.5, SURE)] * 4, RECORDED: [(-0.5, SURE)] * 4},
        None,
        "There is nothing to choose from beside EASY",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    changes, best, text = CASES[name]
    judged = best_of(changes)
    assert judged.best == best
    assert text in judged.text
    assert 1 <= len(judged.sentences) <= 3
    assert len(textwrap.wrap(" ".join(judged.sentences), 100)) <= 3


def test_a_change_sure_alone_is_not_sure_as_the_luckiest_of_many() -> None:
    lucky, others = [(-0.2, 0.02)] + [(0.0, 1.0)] * 3, [(0.001, 1.0)] * 4
    assert best_of({SJBF: lucky}).best == SJBF
    assert best_of({SJBF: lucky, **{(f"F{number}-EASY", "last2", "tsafrir"): others for number in (1, 2, 3, 4)}}).best is None


def test_one_replay_is_one_draw_and_tells_sizes_alone() -> None:
    judged = best_of({SJBF: [(-0.1, SURE)] * 4, HARM: [(-0.6, SURE), (0.0, SURE), (10.9, SURE), (0.0, SURE)]}, replicates=1)
    assert (judged.best, judged.worse[HARM], judged.sure) == (None, ("p2sf_s",), False)
    assert judged.sentences[0].startswith("One replay of each is one draw: no combination is surely better")
    assert re.search(r"P²SF \(\+1,090.0 %.* it is EASY-SJBF", judged.text)
    assert judged.record(HARM) == {"best": False, "worse": ["p2sf_s"], "verdict": judged.text}
