"""No hour is answered by a model that has learned from it, and what is said are frequencies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.labels import BINARY, baselines, labels, z_scores
from models.variability.model import fit
from models.variability.unseen import Unseen, without_probes

RUNS, DAYS = 800, 20


@pytest.fixture(scope="module")
def learned() -> tuple[pd.DataFrame, pd.DataFrame, Unseen]:
    """Runs whose day tells nothing of another day, but all of its own; the model has learned from the first half."""
    random = np.random.default_rng(4)
    start = np.sort(random.integers(0, DAYS * DAY_S, RUNS))
    bad = random.random(DAYS)[start // DAY_S] < 0.3
    runtime = 100.0 + random.normal(0, 1, RUNS) + 30.0 * (bad & (random.random(RUNS) < 0.4))
    runs = pd.DataFrame({"application": "AMG", "start_s": start, "runtime_s": runtime})
    features = pd.DataFrame({"day": (start // DAY_S).astype(float), "noise": random.random(RUNS), "probe.send_s.min": 1.0})
    half = len(runs) // 2
    label = labels(z_scores(runs["application"], runtime, baselines(runs["application"], runtime)), BINARY)
    model = fit("extra-trees", features[:half], label[:half], seed=1)
    return runs, features, Unseen.of(model, features, runs, BINARY, float((start + runtime)[:half].max()))


def test_each_hour_is_answered_by_a_twin_that_does_not_know_it_and_later_ones_by_the_model(learned) -> None:
    runs, features, unseen = learned
    table, start = without_probes(features, unseen.model.columns), runs["start_s"].to_numpy(float)
    answers = unseen.variation(table, start)
    later = start > unseen.until_s
    by_model = unseen.model.variation_of(unseen.model.probabilities(features.assign(**{"probe.send_s.min": np.nan})))
    np.testing.assert_array_equal(answers[later], by_model[later])
    assert 0 < later.sum() < len(later)
    varied = labels(z_scores(runs["application"], runs["runtime_s"], baselines(runs["application"], runs["runtime_s"]))) > 0
    gap = [each[~later & varied].mean() - each[~later & ~varied].mean() for each in (by_model, answers)]
    assert gap[0] > 0.2  # it remembers the day
    assert gap[1] < gap[0] / 3
    for number, twin in enumerate(unseen.twins):
        at = unseen.first_s[number]
        assert unseen.variation(table[:1], np.array([at])) == twin.variation_of(twin.probabilities(features[:1]))


def test_frequencies_add_up_to_the_runs_that_varied(learned) -> None:
    runs, features, unseen = learned
    answers = unseen.variation(without_probes(features, unseen.model.columns), runs["start_s"].to_numpy(float))
    varied = labels(z_scores(runs["application"], runs["runtime_s"], baselines(runs["application"], runs["runtime_s"]))) > 0
    assert unseen.frequency(answers).sum() == pytest.approx(varied.sum(), rel=1e-3)
    assert unseen.skill[1] < unseen.skill[0] < unseen.skill[2]


def test_too_few_runs_are_refused(learned) -> None:
    runs, features, unseen = learned
    with pytest.raises(InputError, match="12 control runs are too few"):
        Unseen.of(unseen.model, features[:12], runs[:12], BINARY, np.inf)
