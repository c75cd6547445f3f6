"""Regression trees: the splits found by trying all, and what holds for any data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.regression_tree import BINS, Shape, edges_of, find_bins, grow
from models.trees import leaf_of

ALL = Shape(leaves=9, min_rows=3, features=1.0, rows=1.0)
SOME = Shape(leaves=20, min_rows=4, features=0.5, rows=0.6)


class Grown(NamedTuple):
    """A tree's table of nodes, its thresholds, and the leaf of each row that was asked about."""

    nodes: np.ndarray
    thresholds: np.ndarray
    leaf: np.ndarray


def binned(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges of bins [features, BINS - 1], and the bins of ``x`` [rows, features]."""
    edges, bins = edges_of(x), np.full(x.shape, 99, np.uint8)
    find_bins(x, np.arange(len(x)), edges, bins)
    return edges, bins


def grown(x: np.ndarray, target: np.ndarray, shape: Shape, seed: int = 0) -> Grown:
    links, thresholds = np.full((shape.leaves, 3), 77), np.full(shape.leaves, 7.7)
    edges, bins = binned(x)
    leaf = grow(bins, edges, target, shape, np.array([seed], np.uint64), links, thresholds)
    np.testing.assert_array_equal(leaf, [leaf_of(links, 0, thresholds, 0, row) for row in x])
    inner = int((links[:, 0] >= 0).sum())
    assert (links[inner:] == -1).all()
    return Grown(links[:inner], thresholds[:inner], leaf)


def data(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of many values and of few, one constant, one twice; the target goes with some of them."""
    rng = np.random.default_rng(seed)
    few, many = rng.integers(-2, 3, rows), rng.normal(size=rows)
    x = np.column_stack([np.ones(rows), many, few, rng.exponential(100, rows), many])
    return x, np.sin(3 * many) + few**2 + rng.normal(0, 0.1, rows)


def by_trying_all(x: np.ndarray, target: np.ndarray, shape: Shape) -> list[tuple[int, float]]:
    """The feature and threshold of each split: at each step the one, of any leaf, that takes most from the sum of squares."""
    leaves, splits = [np.arange(len(x))], []
    while len(leaves) < shape.leaves:
        gains = {}
        for number, rows in enumerate(leaves):
            for feature in range(x.shape[1]):
                values = np.unique(x[:, feature])
                for threshold in (values[1:] + values[:-1]) / 2:
                    low = x[rows, feature] <= threshold
                    if min(low.sum(), (~low).sum()) >= shape.min_rows:
                        parts = target[rows], target[rows[low]], target[rows[~low]]
                        whole, one, other = (((part - part.mean()) ** 2).sum() for part in parts)
                        gains[number, feature, threshold] = whole - one - other
        if not gains:
            break
        # the first of those that make the same two parts, which rounding may tell apart
        number, feature, threshold = next(split for split, gain in gains.items() if gain > max(gains.values()) - 1e-9)
        low = x[leaves[number], feature] <= threshold
        leaves.append(leaves[number][~low])
        leaves[number] = leaves[number][low]
        splits.append((feature, threshold))
    return splits


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(2, BINS), st.integers(0, 10**6), st.integers(1, 5))
def test_each_split_is_the_best_of_all(rows: int, seed: int, least: int) -> None:
    x, target = data(seed, rows)
    target = np.rint(target * 1024) / 1024
    shape = ALL._replace(min_rows=least)
    tree = grown(x, target, shape)
    assert list(zip(tree.nodes[:, 0].tolist(), tree.thresholds.tolist(), strict=True)) == by_trying_all(x, target, shape)


@given(st.integers(2, 160), st.integers(0, 10**6))
def test_leaves_are_few_and_none_is_small(rows: int, seed: int) -> None:
    x, target = data(seed, rows)
    for shape in (SOME._replace(rows=1.0), SOME):
        tree = grown(x, target, shape, seed)
        members = np.bincount(tree.leaf)
        assert len(members) == len(tree.nodes) + 1 <= shape.leaves
        assert members.min() >= shape.min_rows or len(members) == 1
        assert sorted(tree.nodes[:, 1:][tree.nodes[:, 1:] < 0]) == list(range(-len(members), 0)) if len(members) > 1 else True


def test_the_seed_decides_which_tree_grows() -> None:
    x, target = data(5, 150)
    one, again, other = (grown(x, target, SOME, seed) for seed in (1, 1, 2))
    for first, second in zip(one, again, strict=True):
        np.testing.assert_array_equal(first, second)
    assert one.nodes.tolist() != other.nodes.tolist()


def test_what_is_unknown_and_zero_are_apart_however_few() -> None:
    x = np.concatenate([[-1.0, 0.0], np.arange(1.0, 1999.0)])[:, None]
    _, bins = binned(x)
    assert bins[:4, 0].tolist() == [0, 1, 2, 2]
