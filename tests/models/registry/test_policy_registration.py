"""Registered policies: what a version records, that it is read as data, and that its consumers get the simulator's scores."""

from __future__ import annotations

from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.artifacts import download_artifacts

from features.errors import InputError
from models.packed.policy_predictor import LARGEST, score
from models.registry.policy_registration import FILE, load, register
from models.registry.tracking import Tracking
from tests.models.test_policies import LEARNED
from tests.sim.schedulers.test_scores import Written, formulas


@pytest.mark.slow
def test_a_version_records_where_it_was_learned_and_scores_jobs_by_its_own_code(opened: Tracking) -> None:
    registered = register(opened, LEARNED, "kth-sp2", tags={"dagster_run_id": "r1"})
    version = opened.client.get_model_version("policy-kth-sp2", registered.version)
    recorded = {
        "score": "r**a*n;a=2.0",
        "data_fingerprint": "0123456789abcdef",
        "seed": "7",
        "dagster_run_id": "r1",
    }
    assert recorded.items() <= version.tags.items()
    assert "-12.0% (-20.0% to -5.0%, 95%) against SAF-EASY-SPF on weeks 4-5" in version.description
    assert mlflow.get_run(version.run_id).data.metrics["judged_relative"] == -0.12
    assert load(opened, "policy-kth-sp2", registered.version) == LEARNED

    asked = pd.DataFrame({"n": [4.0, 1.0], "r": [3600.0, 60.0]})
    model = mlflow.pyfunc.load_model(f"models:/policy-kth-sp2/{registered.version}")
    assert model.predict(asked)["score"].tolist() == [4 * 3600.0**2, 3600.0]
    for wrong, error in ((asked.drop(columns="r"), "r"), (asked.assign(r=np.nan), "row 0 .*column r: nan is not a finite number")):
        with pytest.raises(Exception, match=error):
            model.predict(wrong)


@pytest.mark.slow
def test_a_version_that_was_changed_or_is_absent_is_refused(opened: Tracking) -> None:
    number = register(opened, LEARNED, "changed").version
    home = Path(download_artifacts(opened.client.get_model_version("policy-changed", number).source))
    file = home / "artifacts" / "policy_model" / FILE
    file.write_text(file.read_text().replace('"a": 2.0', '"a": 3.0'))
    with pytest.raises(InputError, match="models:/policy-changed/1: is no policy that this Queuecast reads: its data are not"):
        load(opened, "policy-changed", number)
    for alias, how in (("champion", "; queuecast run --trace changed registers one"), ("9", ""), ("no alias", "")):
        with pytest.raises(InputError, match=f"no registered model policy-changed@{alias} at [^ ]*: its aliases: none{how}$"):
            load(opened, "policy-changed", alias)


@pytest.mark.slow
@settings(max_examples=40)
@given(formulas, st.integers(0, 2**32 - 1))
def test_consumers_compute_the_simulators_scores(formula: Written, seed: int) -> None:
    text, value = formula
    rng = np.random.default_rng(seed)
    names = ("n", "r", "requested", "submit", "wait", "free", "queue", "demand", "hour", "procs")
    seen = {name: rng.integers(0, 1000, 5).astype(np.float64) for name in names}
    scores = np.broadcast_to(score(text, seen), 5)
    expected = [value({name: float(column[row]) for name, column in seen.items()}) for row in range(5)]
    np.testing.assert_allclose(scores, np.clip(expected, -LARGEST, LARGEST), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("text", ["__import__('os')", "r.real", "r if n else 1", "q", "r+", "(" * 5000, "'r'", "min(r)", "1<r<3"])
def test_a_formula_runs_no_code_where_it_is_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not (a|allowed in a) formula"):
        score(text, {"r": np.ones(2), "n": np.ones(2)})
