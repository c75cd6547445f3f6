"""The example policies say what the page of learned policies found."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.common.pages import STUDIES
from benchmarks.papers.legrand.learned_policy import EXAMPLES, policy_of
from benchmarks.papers.legrand.learned_study import SPLITS
from pipelines.storage.policies import read_policy


@pytest.mark.parametrize("name", SPLITS)
def test_each_example_has_the_evidence_of_the_study(name: str) -> None:
    kept = read_policy(EXAMPLES / f"learned-{name}.json")
    rows = pd.read_csv(STUDIES / "data" / "learned-policies.csv")
    assert kept.trained is not None
    rebuilt = policy_of(name, kept.score, rows, kept.trained.trials)
    assert replace(rebuilt, made_by=kept.made_by) == kept
    training = pd.read_csv(STUDIES / "data" / "learned-policies-training.csv")
    assert (training["score"].dropna().iloc[-1], training["trials"].sum()) == (kept.score, kept.trained.trials)
