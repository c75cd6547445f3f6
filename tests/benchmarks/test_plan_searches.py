"""The study of searches says which is best of the numbers it has."""

from __future__ import annotations

from itertools import product

import pandas as pd

from benchmarks.studies.plan_searches import BACKFILLING, METHODS, METRICS, PLANS, card


def test_the_best_search_of_each_kind_is_named_with_its_gain() -> None:
    gain = {method: 0.1 * (place + 1) for place, method in enumerate(METHODS)}
    rows = [
        (kind, number, 30, equal, method, seed, gain[method] + (seed - 0.5) / 100, 0.01)
        for (number, kind), equal, method, seed in product(enumerate(PLANS), ("evaluations", "time"), METHODS, range(2))
    ]
    table = pd.DataFrame(rows, columns=["kind", "plan", "jobs", "equal", "search", "seed", "gain", "seconds"])
    titles = [*(f"search={method}" for method in METHODS), BACKFILLING]
    ends = pd.DataFrame([("part", title, 0, *[100.0 + place] * len(METRICS), 1.0) for place, title in enumerate(titles)])
    ends.columns = ["part", "title", "seed", *METRICS, "seconds"]
    text = card(table, ends, "Made by hand.").markdown()
    assert f"`{METHODS[-1]}` 0.20 (`random` 0.10) on {next(iter(PLANS))}" in text
    assert f"| `{METHODS[-1]}` | 0.20±0.06 |" in text
    assert f"the least bounded slowdown is `{METHODS[0]}`'s, {100 * (100 / 102 - 1):+.1f}±0.0 %" in text
