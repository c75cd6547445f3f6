"""Nothing that a classifier sees of a run is of the future, of other runs, or of the run's own outcome: change all of that, and not a bit moves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.monitoring.labels import baselines, feature_matrix, labels, z_scores
from features.monitoring.samplers import PROBES
from features.monitoring.windows import window_features
from tests.support.counters_by_hand import METRICS, SAMPLER, Case, random_case

TYPES = {"AMG": "network", "LBANN": "io"}


def dressed(runs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return runs.assign(application=rng.choice(["AMG", "LBANN", "unheard of"], len(runs)), runtime_s=rng.gamma(9, 10, len(runs)))


def probes_of(runs: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    pairs = runs[["run_id", "nodes"]].explode("nodes").dropna().rename(columns={"nodes": "node"})
    return pairs.assign(**{name: rng.gamma(2, 1, len(pairs)) for name in PROBES})


def other_samples(case: Case, from_micros: int, rng: np.random.Generator) -> pd.DataFrame:
    """The samples before that instant, then anything at all: from that very microsecond on, of other nodes too, or nothing."""
    past = case.samples[np.rint(case.samples["time_s"] * 1e6) < from_micros]
    count = rng.integers(0, 60)
    time = np.sort(from_micros + np.concatenate([[0], rng.integers(0, 10**8, count)])[:count]) / 1e6
    future = pd.DataFrame({"time_s": time, "node": rng.choice(["n0", "n1", "n2", "new"], count)})
    for metric in METRICS:
        future[metric] = rng.choice([np.nan, 0.0, 1.0, 1e19, -5.0], count)
    return pd.concat([past, future], ignore_index=True)


def other_runs(runs: pd.DataFrame, kept: int, rng: np.random.Generator) -> pd.DataFrame:
    """The run in place ``kept``, with another outcome, among others than before."""
    count = rng.integers(0, 10)
    run = runs.iloc[[kept]].assign(runtime_s=rng.gamma(9, 100))
    others = pd.DataFrame({"run_id": [f"other{number}" for number in range(count)]})
    others["nodes"] = [list(rng.permutation(["n0", "n1", "new"])[: rng.integers(0, 4)]) for _ in range(count)]
    others["start_s"] = int(run["start_s"].iloc[0]) + rng.integers(-30, 30, count)
    return pd.concat([dressed(others, rng), run]).sample(frac=1, random_state=int(rng.integers(2**31)))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_no_feature_sees_the_future_or_other_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_case(seed)
    runs = dressed(case.runs, rng)
    probes = probes_of(runs, rng)
    for scope in ("own", "all"):
        windows = getattr(window_features([case.samples], runs, SAMPLER, scope=scope, **case.options), scope)
        matrix = feature_matrix(windows, probes, TYPES, runs)
        for place, run in enumerate(runs.itertuples()):
            until = int(run.start_s) * 10**6 - round(case.options["lag_s"] * 10**6)
            changed = other_runs(runs, place, rng)
            samples = other_samples(case, until, rng)
            again = getattr(window_features([samples], changed, SAMPLER, scope=scope, **case.options), scope)
            others = changed[changed["run_id"] != run.run_id]
            changed_probes = pd.concat([probes_of(others, rng), probes[probes["run_id"] == run.run_id]])
            row = feature_matrix(again, changed_probes, TYPES, changed).loc[run.run_id]
            assert row.to_numpy().tobytes() == matrix.loc[run.run_id].to_numpy().tobytes()


def test_the_last_sample_before_the_end_does_move_the_features() -> None:
    """Lest the test above pass because nothing moves anything."""
    moved = 0
    for seed in range(20):
        case = random_case(seed)
        changed = case.samples.assign(level=case.samples["level"] + 1)
        first, second = (window_features([samples], case.runs, SAMPLER, **case.options).own for samples in (case.samples, changed))
        assert first is not None
        assert second is not None
        moved += int((first["net.level.max"] != second["net.level.max"])[first["net.level.max"].notna()].sum())
    assert moved > 20


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_runs_of_the_test_part_move_neither_baselines_nor_labels_of_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    application, runtime = rng.choice(["AMG", "LBANN"], 60), rng.gamma(9, 10, 60)
    training = np.arange(60) < 40
    usual = baselines(application[training], runtime[training])
    z = z_scores(application, runtime, usual)
    runtime[59] *= 1_000
    again = baselines(application[training], runtime[training])
    pd.testing.assert_frame_equal(usual, again, check_exact=True)
    assert labels(z)[:59].tobytes() == labels(z_scores(application, runtime, again))[:59].tobytes()
