"""The example policies say what the page of learned policies found."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.common.pages import STUDIES
from benchmarks.papers.learned_policy import EXAMPLES, policy_of
from benchmarks.papers.legrand2018_learned import SPLITS
from pipelines.storage.policies import read_policy


@pytest.mark.parametrize("name", SPLITS)
def test_each_example_has_the_evidence_of_the_study(name: str) -> None:
    kept = read_policy(EXAMPLES / f"learned-{name}.json")
    rows = pd.read_csv(STUDIES / "data" / "learned-policies.csv")
    assert kept.trained is not None
    made = policy_of(name, kept.score, rows, kept.trained.trials)
    assert replace(made, made_by=kept.made_by) == kept
    assert f"`{kept.score}`" in (STUDIES / "learned-policies.md").read_text(encoding="utf-8")
    assert f"These took {kept.trained.trials:,} trials" in (STUDIES / "learned-policies.md").read_text(encoding="utf-8")
