"""Measures of the study of starts, on answers whose quality is plain."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.studies.starts_measures import brier_skill, chance_table, covered, worst_by_chance
from models.packed.start_distribution import EDGES_S


def test_measures_know_a_right_answer_from_a_constant_one() -> None:
    waits = np.array([0.0, 0.0, 7200.0, 7200.0] * 50)
    right = (waits[:, None] <= EDGES_S).astype(float)
    constant = np.tile((EDGES_S >= 7200) * 0.5 + 0.5, (200, 1))
    assert brier_skill(right, waits, np.full(200, 0.5), 3600.0) == 1.0
    assert brier_skill(constant, waits, np.full(200, 0.5), 3600.0) == pytest.approx(0.0)
    table = chance_table(constant, waits)
    one = table[(table["by"] == "1h") & (table["bin"] == 5)].iloc[0]
    assert (one["jobs"], one["told"], one["came"]) == (200, 0.5, 0.5)
    assert set(covered(right, waits, np.zeros(200, np.int64), 0)["jobs"]) == {100}


def test_right_chances_are_off_by_what_chance_alone_does() -> None:
    few, many = (pd.DataFrame({"what": ["off, 1h, bin 4"], "jobs": [jobs]}) for jobs in (100, 10_000))
    assert worst_by_chance(few) == pytest.approx(1.96 * (0.45 * 0.55 / 100) ** 0.5, abs=0.01)
    assert worst_by_chance(many) == pytest.approx(worst_by_chance(few) / 10, abs=0.001)
