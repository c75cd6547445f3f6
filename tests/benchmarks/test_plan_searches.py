"""The study of searches says which is best of the numbers it has."""

from __future__ import annotations

from itertools import product

import pandas as pd

from benchmarks.studies.plan_searches import BACKFILLING, METHODS, METRICS, OPTIONS, PLANS, answer, gains_table, moved, relative


def test_the_best_search_of_each_kind_is_named_with_its_gain() -> None:
    gain = {method: 0.1 * (place + 1) for place, method in enumerate(METHODS)}
    rows = [
        (kind, number, 30, equal, method, seed, gain[method] + (seed - 0.5) / 100, 0.01)
        for (number, kind), equal, method, seed in product(enumerate(PLANS), ("evaluations", "time"), METHODS, range(2))
    ]
    table = pd.DataFrame(rows, columns=["kind", "plan", "jobs", "equal", "search", "seed", "gain", "seconds"])
    titles = [*(f"search={method}" for method in METHODS), *OPTIONS, BACKFILLING]
    ends = pd.DataFrame([("part", title, 0, *[100.0 + place] * len(METRICS), 1.0) for place, title in enumerate(titles)])
    ends.columns = ["part", "title", "seed", *METRICS, "seconds"]
    best = METHODS[-1]
    assert f"with equal evaluations: `{best}` 0.60 (`random` 0.10) on {next(iter(PLANS))}" in answer(table, ends)
    assert f"| `{best}` | 0.600 ± 0.064 |" in " ".join(gains_table(table, "time").split())
    assert "bounded slowdown is `random`'s" in answer(table, ends)
    assert "Bounded slowdown is moved most by 1,000 iterations (+15 %), 30 iterations (+14 %)" in moved(ends)
    cells = [cell.strip() for cell in relative(ends, ["search=worst"], BACKFILLING).splitlines()[-1].split("|")]
    assert cells[1:3] == ["search=worst", f"{100 * (101 / (100 + len(titles) - 1) - 1):+.1f}"]
