"""Trees as plain arrays for the simulator's kernel, including LightGBM's.

A tree has up to ``leaves`` leaves; its inner nodes are rows of a table ``links`` (feature, child if the feature is at
most the threshold, other child), with a list of thresholds. A child below 0 is a leaf: -1 the first, -2 the second, as
in LightGBM.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from features.jit import kernel

if TYPE_CHECKING:
    import lightgbm

FEATURE, LOW, HIGH = range(3)
"""Columns of the table of nodes. A tree of one leaf has the feature -1 in its first row."""


def plain_trees(booster: lightgbm.Booster) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return each tree as (nodes, thresholds, values of leaves).

    Nodes are int64 [leaves - 1, 3], thresholds float64 [leaves - 1], values float64 [leaves]. Raises ValueError for
    splits that are not plain comparisons (categories, missing values): train without those.
    """
    trees = []
    for tree in booster.model_to_string().split("\nTree=")[1:]:
        fields = dict(line.split("=", 1) for line in tree.split("\n\n")[0].splitlines() if "=" in line)
        leaves = int(fields["num_leaves"])
        values = np.array(fields["leaf_value"].split(), np.float64)
        if leaves == 1:
            trees.append((np.array([[-1, -1, -1]]), np.zeros(1), values))
            continue
        kinds = np.array(fields["decision_type"].split(), np.int64)
        if (kinds & 1).any() or (kinds >> 2).any():  # bit 0: categories; bits 2 and 3: treatment of missing values
            raise ValueError("a tree that splits by categories or missing values cannot be converted")
        columns = [np.array(fields[name].split(), np.int64) for name in ("split_feature", "left_child", "right_child")]
        trees.append((np.column_stack(columns), np.array(fields["threshold"].split(), np.float64), values))
    return trees


@kernel
def leaf_of(links, first, thresholds, at, x):
    """Return the leaf of ``x`` in one tree.

    The tree's nodes begin at row ``first`` of ``links``, its thresholds at ``thresholds[at]``.
    """
    if links[first, FEATURE] < 0:
        return 0
    node = 0
    while node >= 0:
        row = first + node
        node = links[row, LOW] if x[links[row, FEATURE]] <= thresholds[at + node] else links[row, HIGH]
    return -1 - node


@kernel
def corrected(x, guess, requested, links, learned, trees, leaves):
    """Return seconds in 1..``requested``: a first ``guess``, corrected by all ``trees``.

    The guess is a logarithm. ``links`` int64 [trees * leaves, 3] has the nodes of each tree. ``learned`` begins with as
    many thresholds, followed by the values of the leaves.
    """
    for tree in range(trees):
        first = tree * leaves
        guess += learned[links.shape[0] + first + leaf_of(links, first, learned, first, x)]
    return np.rint(min(max(math.exp(guess), 1.0), 1.0 * requested))
