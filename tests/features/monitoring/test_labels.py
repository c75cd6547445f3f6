"""Labels, probes and types as defined by Nichols et al., and the classifiers' 282 columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from features.errors import InputError
from features.monitoring.labels import (
    BINARY,
    THREE_CLASSES,
    baselines,
    feature_matrix,
    labels,
    probe_features,
    type_features,
    z_scores,
)
from features.monitoring.samplers import FEATURES, PROBES, SAMPLERS
from features.monitoring.windows import WindowFeatures, side_by_side, window_features
from tests.features.monitoring.test_windows import regular
from tests.support.counters_by_hand import ORIGIN_S

runtimes = st.lists(st.tuples(st.sampled_from("ABC"), st.floats(0.5, 1e5)), min_size=1, max_size=40)


@pytest.mark.slow
@settings(max_examples=15)
@given(runtimes)
def test_z_scores_are_those_of_each_application_by_itself(runs: list[tuple[str, float]]) -> None:
    application, runtime = (np.array(column) for column in zip(*runs, strict=True))
    usual = baselines(application, runtime)
    z = z_scores(application, runtime, usual)
    for name in np.unique(application):
        own = runtime[application == name]
        assert usual.loc[name, "runs"] == len(own)
        if own.std() < 1e-6 * own.mean():
            continue
        np.testing.assert_allclose(z[application == name], stats.zscore(own), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(usual.loc[name, ["mean_s", "sigma_s"]].astype(float), [own.mean(), own.std()], rtol=1e-9)
    # of n runs none is beyond the root of n - 1
    limit = np.sqrt(usual.loc[application, "runs"].to_numpy() - 1)
    assert (np.abs(z[~np.isnan(z)]) <= (limit * 1.001 + 1e-6)[~np.isnan(z)]).all()


def test_without_baseline_or_variation_there_is_no_z_score_and_no_label() -> None:
    usual = baselines(["A", "A", "B", "B", "B"], [10, 20, 0.1, 0.1, 0.1])  # three times 0.1 divided by three is not 0.1
    assert usual["sigma_s"].tolist() == [5, 0]
    z = z_scores(["A", "B", "C"], [25, 0.1, 5], usual)
    np.testing.assert_array_equal(z, [2, np.nan, np.nan])
    with pytest.raises(InputError, match="2 of 3 runs have no z-score"):
        labels(z)


def test_labels_are_one_sided_with_the_threshold_below() -> None:
    z = np.array([-9, 0, 1.2, 1.2000001, 1.5, 1.5000001, 9])
    assert labels(z).tolist() == labels(z, BINARY).tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert labels(z, THREE_CLASSES).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert labels(z).dtype == np.int64
    for wrong in ((), (1.5, 1.2), (1.5, 1.5)):
        with pytest.raises(InputError, match="ascend"):
            labels(z, wrong)


def probes(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["run_id", "node", *PROBES])


def test_probe_features_are_over_the_nodes_of_each_run() -> None:
    table = probes(("b", "n1", 1, 2, 3), ("a", "n1", 5, 6, 7), ("b", "n2", 3, np.nan, 9), ("unasked", "n1", 0, 0, 0))
    probed = probe_features(table, ["a", "b", "unprobed"])
    assert probed.index.tolist() == ["a", "b", "unprobed"]
    assert probed.loc["a"].tolist() == [5, 5, 5, 6, 6, 6, 7, 7, 7]
    assert probed.loc["b"].tolist() == [1, 3, 2, 2, 2, 2, 3, 9, 6]
    assert probed.loc["unprobed"].isna().all()
    assert tuple(probed.columns) == FEATURES[270:279]
    assert probe_features(table.iloc[:0], ["a"]).isna().all().all()


def test_types_are_one_hot_and_missing_where_the_site_gives_none() -> None:
    one_hot = type_features(["LBANN", "PENNANT", "unknown", "LBANN"], {"LBANN": "io", "PENNANT": "compute"})
    np.testing.assert_array_equal(one_hot, [[0, 0, 1], [1, 0, 0], [np.nan] * 3, [0, 0, 1]])
    assert tuple(one_hot.columns) == FEATURES[279:]
    with pytest.raises(InputError, match="'AMG' is of type 'fast'"):
        type_features([], {"AMG": "fast"})


def runs() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run_id": ["second", "first"],
            "application": ["AMG", "LBANN"],
            "nodes": [["n1", "n2"], ["n3"]],
            "start_s": [ORIGIN_S + 350, ORIGIN_S + 50],
            "runtime_s": [90.0, 80.0],
        }
    )


TABLE = probes(("first", "n3", 1, 2, 3), ("second", "n1", 4, 5, 6), ("second", "n2", 6, 7, 8))


def papers_windows(runs: pd.DataFrame, samplers: tuple[str, ...] = tuple(SAMPLERS)) -> WindowFeatures:
    """All metrics of the samplers of Nichols et al., on a small cluster."""
    parts = []
    for name in samplers:
        metrics = SAMPLERS[name].metrics
        batches = (batch.rename_columns(["time_s", "node", *metrics]) for batch in regular(400, 4, len(metrics)))
        parts.append(window_features(batches, runs, name))
    return side_by_side(parts)


@pytest.mark.slow
def test_the_papers_samplers_make_the_282_features() -> None:
    types = {"AMG": "network", "LBANN": "io"}
    backwards = papers_windows(runs(), tuple(reversed(SAMPLERS)))
    assert backwards.own is not None
    assert len(backwards.coverage.columns) == 18
    matrix = feature_matrix(backwards.own.iloc[::-1], TABLE, types, runs())
    assert tuple(matrix.columns) == FEATURES
    assert (matrix.dtypes == np.float64).all()
    assert matrix.index.tolist() == ["second", "first"]
    assert matrix["sysclassib.qp1_dropped.mean"].tolist() == [21, 21]
    assert matrix["opa_info.link_quality_indicator.max"].tolist() == [27 * (ORIGIN_S + 349), 27 * (ORIGIN_S + 49)], "a gauge"
    assert matrix["probe.recv_s.max"].tolist() == [7, 2]
    assert matrix["type.io"].tolist() == [0, 1]


def test_a_site_with_fewer_samplers_has_their_columns_and_the_twelve_and_others_come_between() -> None:
    windows = papers_windows(runs(), ("lustre2_client",)).all
    assert windows is not None
    matrix = feature_matrix(windows, TABLE, {}, runs())
    assert tuple(matrix.columns) == FEATURES[168:]
    assert matrix.filter(like="type.").isna().all().all()
    wide = pd.concat([windows.iloc[:, :3].add_prefix("site."), windows], axis=1)
    assert tuple(feature_matrix(wide, TABLE, {}, runs()).columns[102:105]) == tuple(wide.columns[:3])
