"""Minimum, maximum and mean of counters before each run, against every pair of run and sample looked at one by one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.monitoring.samplers import Sampler
from features.monitoring.window_kernel import KINDS
from features.monitoring.windows import side_by_side, window_features
from tests.support.counters_by_hand import ORIGIN_S, SAMPLER, features_by_hand, random_case, said_by_hand

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@given(seeds)
@settings(max_examples=10)
def test_every_feature_of_every_run_is_the_one_by_hand_however_batches_are_cut(seed: int) -> None:
    case = random_case(seed)
    cut, whole = (
        window_features(batches, case.runs, SAMPLER, **case.options)
        for batches in (case.batches(np.random.default_rng(seed)), [case.samples])
    )
    assert same_bytes(cut.own, whole.own)
    assert same_bytes(cut.all, whole.all)
    for scope, frame in (("own", cut.own), ("all", cut.all)):
        features, coverage = features_by_hand(case, scope)
        assert frame is not None
        pd.testing.assert_frame_equal(frame, features, rtol=1e-12, atol=0)
        pd.testing.assert_frame_equal(cut.coverage[coverage.columns], coverage, check_dtype=False)
    _, counts = said_by_hand(case)
    assert cut.counts.to_dict() == {f"net.{kind}": counts[kind] for kind in (*KINDS, "duplicate", "samples", "nodes", "vanished")}


def one(
    times: list[float], values: list[float], start: int = 1_000, gauge: bool = False, **options: Any
) -> tuple[float, float, float]:
    """Minimum, maximum and mean of one metric of one node before a run that starts at ``start``; times count from the origin."""
    samples = pd.DataFrame({"time_s": ORIGIN_S + np.array(times), "node": "a", "m": values})
    runs = pd.DataFrame({"run_id": ["r"], "nodes": [["a"]], "start_s": [ORIGIN_S + start]})
    windows = window_features([samples], runs, Sampler("s", ("m",), frozenset({"m"} if gauge else ())), **options)
    assert windows.own is not None
    assert windows.all is not None
    pd.testing.assert_frame_equal(windows.own, windows.all)
    return tuple(windows.own.iloc[0])


@pytest.mark.parametrize(
    ("times", "values", "options", "expected"),
    [
        # the window holds its begin and not the start
        ([699.999999, 700, 999.999999, 1_000], [1, 2, 3, 4], {"gauge": True}, (2, 3, 2.5)),
        # a lag ends it earlier, even inside a second
        ([970, 989.499999, 989.5, 990, 999], [1, 2, 3, 4, 5], {"gauge": True, "lag_s": 10}, (1, 3, 2)),
        ([970, 989.499999, 989.5, 990, 999], [1, 2, 3, 4, 5], {"gauge": True, "lag_s": 10.5}, (1, 2, 1.5)),
        ([970, 989.499999, 989.5, 990, 999], [1, 2, 3, 4, 5], {"gauge": True, "lag_s": 10.499999}, (1, 3, 2)),
        # a rate belongs to its later sample: an interval that began before the window counts, one that ends at the start does not
        ([690, 710], [0, 40], {}, (2, 2, 2)),
        ([990, 1_000], [0, 40], {}, (np.nan, np.nan, np.nan)),
        # the earlier value may lie before nulls, but not too far back
        ([800, 810, 820], [0, np.nan, 60], {}, (3, 3, 3)),
        ([600, 900, 910], [0, 900, 910], {}, (1, 3, 2)),
        ([599.999999, 900, 910], [0, 900, 910], {}, (1, 1, 1)),
        ([599, 900, 910], [0, 301, 311], {"longest_interval_s": 301}, (1, 1, 1)),
        # after a reset counting goes on from the new value
        ([900, 910, 920], [5_000, 10, 30], {}, (2, 2, 2)),
        # far from the origin, rates are exact to the microsecond
        ([999.000001, 999.000004], [0, 3], {}, (1e6, 1e6, 1e6)),
        ([1_001, 1_002], [0, 1], {}, (np.nan, np.nan, np.nan)),
    ],
)
def test_a_window_of_one_metric_of_one_node(times: list, values: list, options: dict, expected: tuple[float, ...]) -> None:
    np.testing.assert_array_equal(one(times, values, **options), expected)


def test_a_run_without_samples_is_missing_not_zero() -> None:
    empty = window_features([], pd.DataFrame({"run_id": ["r"], "nodes": [["a"]], "start_s": [5]}), SAMPLER)
    assert empty.own is not None
    assert empty.own.isna().all().all()
    assert empty.coverage.filter(like="samples").eq(0).all().all()
    assert empty.interval_s.isna().all()


def same_bytes(first: pd.DataFrame | None, second: pd.DataFrame | None) -> bool:
    assert first is not None
    assert second is not None
    return first.to_numpy().tobytes() == second.to_numpy().tobytes() and first.columns.equals(second.columns)


def regular(steps: int, nodes: int, metrics: int, batch: int = 50) -> Iterator[pa.RecordBatch]:
    """A sample a second, never held as a whole."""
    names = pa.array([f"n{node}" for node in range(nodes)])
    for begin in range(0, steps, batch):
        time = ORIGIN_S + np.repeat(np.arange(begin, begin + batch, dtype=float), nodes)
        node = pa.DictionaryArray.from_arrays(np.tile(np.arange(nodes, dtype=np.int32), batch), names)
        columns = {f"m{metric}": time * metric for metric in range(metrics)}
        yield pa.RecordBatch.from_pydict({"time_s": time, "node": node, **columns})


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data() -> None:
    runs = pd.DataFrame({"run_id": ["a", "b"], "nodes": [["n0"], ["n1"]], "start_s": [ORIGIN_S + 100, ORIGIN_S + 900]})
    sampler = Sampler("s", tuple(f"m{metric}" for metric in range(20)))
    peaks = []
    for steps in (100, 1_000, 4_000):
        tracemalloc.start()
        windows = window_features(regular(steps, 32, 20), runs, sampler)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert windows.counts["s.samples"] == steps * 32
    assert peaks[2] < 1.1 * peaks[1] < 1.3 * peaks[0], peaks


def test_coverage_compares_samples_with_the_usual_interval() -> None:
    runs = pd.DataFrame(
        {"run_id": ["late", "early"], "nodes": [["n0", "n1", "absent"], ["n2"]], "start_s": [ORIGIN_S + 400, ORIGIN_S + 100]}
    )
    windows = window_features(regular(1_000, 4, 2), runs, Sampler("s", ("m0", "m1")), lag_s=50)
    assert windows.interval_s.to_dict() == {"s": 1.0}
    assert windows.coverage.loc["late"].to_dict() == {
        **{"s.own.samples": 500, "s.own.nodes": 2, "s.own.expected": 750},
        **{"s.all.samples": 1_000, "s.all.nodes": 4, "s.all.expected": 1_000},
    }
    assert windows.coverage.loc["early", "s.own.samples"] == 49, "fifty samples, of which the first says no rate"


def test_a_metric_that_a_batch_lacks_is_null_there_and_a_new_one_is_refused() -> None:
    case = random_case(5)
    without = case.samples.iloc[20:].drop(columns="level")
    nulls = case.samples.copy()
    nulls.loc[20:, "level"] = np.nan
    windows = window_features([case.samples.iloc[:20], without], case.runs, SAMPLER, **case.options)
    typeless = pa.Table.from_pandas(without, preserve_index=False).append_column("level", pa.nulls(len(without)))
    assert same_bytes(windows.own, window_features([case.samples.iloc[:20], typeless], case.runs, SAMPLER, **case.options).own)
    assert same_bytes(windows.own, window_features([nulls], case.runs, SAMPLER, **case.options).own)
    with pytest.raises(InputError, match="batch 2 of net has metrics that the sampler does not name: extra"):
        window_features([case.samples.iloc[:20], case.samples.iloc[20:].assign(extra=1.0)], case.runs, SAMPLER)


def test_samples_added_together_give_the_same_bytes_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    rows = 5_000
    values = rng.standard_gamma(2, (rows, 3)).cumsum(0)
    values[rng.random((rows, 3)) < 0.002] = np.nan
    values[rng.random((rows, 3)) < 0.002] = 0.0
    samples = pd.DataFrame({"time_s": ORIGIN_S + np.arange(rows), "node": np.array(["a", "b"])[np.arange(rows) % 2]})
    samples[["m", "n", "level"]] = values
    sampler = Sampler("s", ("m", "n", "level"), frozenset({"level"}))
    starts = ORIGIN_S + rng.integers(0, rows + 300, 50)
    runs = pd.DataFrame({"run_id": np.arange(50), "nodes": [["a"], ["b", "a"]] * 25, "start_s": starts})
    together = window_features([samples], runs, sampler)
    singly = window_features((samples.iloc[row : row + 1] for row in range(rows)), runs, sampler)
    assert same_bytes(together.own, singly.own)
    assert same_bytes(together.all, singly.all)
    pd.testing.assert_frame_equal(together.coverage, singly.coverage)
    pd.testing.assert_series_equal(together.counts, singly.counts)


def refused(match: str, samples: dict[str, Any], runs: dict[str, Any], **options: Any) -> None:
    with pytest.raises(InputError, match=match):
        window_features([pd.DataFrame(samples)], pd.DataFrame(runs), Sampler("s", ("m",)), **options)


def test_bad_input_is_refused_in_one_line() -> None:
    good = {"time_s": [1.0, 2.0], "node": ["a", "b"], "m": [1.0, 2.0]}
    runs = {"run_id": ["r", "q"], "nodes": [["a"], ["b"]], "start_s": [3, 4]}
    refused("goes back in time: a sample of b at 0.500000 s", good | {"time_s": [1.0, 0.5]}, runs)
    refused("no column 'node'", {"time_s": [1.0]}, runs)
    refused("1 samples have no time_s", good | {"time_s": [1.0, None]}, runs)
    refused("time is not a number", good | {"time_s": [1.0, np.inf]}, runs)
    refused("are not numbers but", good | {"m": ["x", "y"]}, runs)
    refused("'r' stands for several", good, runs | {"run_id": ["r", "r"]})
    refused("run 'q' names a node twice", good, runs | {"nodes": [["a"], ["b", "b"]]})
    refused("run 'q' has no list of nodes", good, runs | {"nodes": [["a"], None]})
    refused("run 'q' has no start", good, runs | {"start_s": [3, None]})
    refused("no column 'start_s'", good, {"run_id": ["r"], "nodes": [["a"]]})
    refused("holds nothing", good, runs, lag_s=300)
    refused("scope", good, runs, scope="mine")
    refused("longest interval", good, runs, longest_interval_s=0)
    with pytest.raises(InputError, match="unknown sampler 'gpu'; known: "):
        window_features([pd.DataFrame(good)], pd.DataFrame(runs), "gpu")
    with pytest.raises(InputError, match="no counters of vmstat"):
        window_features([], pd.DataFrame(runs), "vmstat")


def test_parts_of_different_runs_or_scopes_do_not_go_together() -> None:
    case, other = random_case(3), random_case(4)
    first = window_features([case.samples], case.runs, SAMPLER)
    with pytest.raises(InputError, match="different runs"):
        side_by_side([first, window_features([other.samples], other.runs, SAMPLER)])
    with pytest.raises(InputError, match="different scopes"):
        side_by_side([first, window_features([case.samples], case.runs, SAMPLER, scope="own")])
