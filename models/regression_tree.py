"""Grow regression trees in compiled code.

By least squares, from histograms of binned features, the best split first (Friedman 2001; LightGBM: Ke et al. 2017).
The layout of a tree is that of :mod:`models.trees`. Sums are over whole numbers, so that their order does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.chance import uniform
from features.jit import kernel, njit
from models.trees import FEATURE, HIGH, LOW, leaf_of

BINS, SAMPLE = 64, 2000
"""Max bins of a feature, and max rows from which they are chosen."""
ONE = 2.0**20
"""The whole number that stands for a target of 1 in sums."""
ROWS_BITS = 16
"""A cell of a histogram is one number: the number of rows in its lower bits, the sum of their targets above."""
ROWS = (1 << ROWS_BITS) - 1
BEGIN, END, TOTAL, HISTOGRAM, NODE, SIDE, SPLIT, BIN, FIELDS = range(9)
"""Fields of a leaf: begin and end of its rows, their total cell, its histogram, the link to it, and its best split."""


class Shape(NamedTuple):
    """Limits of a tree: max leaves, min rows in a leaf; share of features per split, of rows."""

    leaves: int
    min_rows: int
    features: float
    rows: float


def sampled(rows: np.ndarray) -> np.ndarray:
    """Return the rows from which edges are chosen."""
    return rows[:: -(-len(rows) // SAMPLE)]


def edges_of(x: np.ndarray) -> np.ndarray:
    """Return the upper edges of the bins of ``x`` [rows, features].

    A feature with few values has one bin for each; otherwise bins follow quantiles.
    """
    return _edges(np.sort(sampled(x).T.copy()))


@njit
def _edges(ordered):
    """Return edges halfway between ascending values [features, rows], filled up by infinity.

    Values below 0 (unknown ones), 0, and values above 0 never share a bin, however few they are.
    """
    edges = np.full((ordered.shape[0], BINS - 1), np.inf)
    for feature in range(ordered.shape[0]):
        values, begin, count = ordered[feature], 0, 0
        few = (values[1:] > values[:-1]).sum() < BINS
        for i in range(1, len(values)):
            apart = few or np.sign(values[i - 1]) != np.sign(values[i])
            enough = apart or (i - begin) * (BINS - count) >= len(values) - begin
            if enough and count < BINS - 1 and values[i - 1] < values[i]:
                edges[feature, count] = 0.5 * (values[i - 1] + values[i])
                begin, count = i, count + 1
    return edges


@njit
def find_bins(x, rows, edges, bins):
    """Write each feature's bin to the ``rows`` of ``bins``: the number of edges below ``x``."""
    for row in rows:
        for feature in range(len(edges)):
            value, ends, below, half = x[row, feature], edges[feature], 0, BINS // 2
            while half > 0:
                below += half * (ends[below + half - 1] < value)
                half //= 2
            bins[row, feature] = below


@njit
def grow(bins, edges, target, shape, random, links, thresholds):
    """Write a tree to ``links`` and ``thresholds``; return each row's leaf.

    ``target`` [rows], below 2^10, is the value to predict; ``bins`` has under 2^16 rows; ``random`` uint64 [1] draws
    rows, features.
    """
    rows, features = bins.shape
    order, cells = np.arange(rows), np.empty(rows, np.int64)
    drawn = np.int64(np.ceil(shape.rows * rows))
    for i in range(drawn):
        other = i + np.int64(uniform(random) * (rows - i))
        order[i], order[other] = order[other], order[i]
        cells[order[i]] = (np.int64(np.rint(ONE * target[order[i]])) << ROWS_BITS) + 1
    inverse, finite = 1.0 / np.maximum(np.arange(drawn + 1), 1), np.isfinite(edges).sum(axis=1)
    histograms = np.empty((shape.leaves, features, BINS), np.int64)
    leaves, gain, ends = np.zeros((shape.leaves, FIELDS), np.int64), np.zeros(shape.leaves), np.zeros(shape.leaves, np.uint8)
    sums, bin_of = np.empty(BINS, np.int64), np.empty(BINS, np.int64)
    links[:] = -1
    thresholds[:] = 0.0
    leaves[0, END], leaves[0, TOTAL] = drawn, cells[order[:drawn]].sum()
    _count(histograms[0], bins, cells, order[:drawn])
    gain[0] = _best_split(histograms[0], leaves[0], shape, inverse, finite, random, sums, bin_of)
    for node in range(shape.leaves - 1):
        best = np.argmax(gain)
        if gain[best] <= 0.0:
            break
        low, high, place = leaves[best], leaves[node + 1], leaves[best, HISTOGRAM]
        feature, bin_ = low[SPLIT], low[BIN]
        if node > 0:
            links[low[NODE], low[SIDE]] = node
        links[node, FEATURE], links[node, LOW], links[node, HIGH] = feature, -1 - best, -2 - node
        thresholds[node], ends[node] = edges[feature, bin_], bin_
        middle = _partition(order, low[BEGIN], low[END], bins, feature, bin_)
        high[BEGIN], high[END], low[END] = middle, low[END], middle
        high[TOTAL] = cells[order[middle : high[END]]].sum()
        low[TOTAL] -= high[TOTAL]
        low[NODE], low[SIDE], high[NODE], high[SIDE] = node, LOW, node, HIGH
        gain[best] = 0.0
        small, large = (low, high) if 2 * middle <= low[BEGIN] + high[END] else (high, low)
        if large[END] - large[BEGIN] >= 2 * shape.min_rows:
            small[HISTOGRAM], large[HISTOGRAM] = node + 1, place
            _count(histograms[node + 1], bins, cells, order[small[BEGIN] : small[END]])
            rest = histograms[place]  # a name of its own: otherwise numba writes the difference and then copies it
            rest -= histograms[node + 1]
            gain[best] = _best_split(histograms[low[HISTOGRAM]], low, shape, inverse, finite, random, sums, bin_of)
            gain[node + 1] = _best_split(histograms[high[HISTOGRAM]], high, shape, inverse, finite, random, sums, bin_of)
    leaf_of_row = np.empty(rows, np.int64)
    for leaf in range(shape.leaves):
        leaf_of_row[order[leaves[leaf, BEGIN] : leaves[leaf, END]]] = leaf
    for row in order[drawn:]:
        leaf_of_row[row] = leaf_of(links, 0, ends, 0, bins[row])
    return leaf_of_row


@kernel
def _partition(order, begin, end, bins, feature, bin_):
    """Move rows up to ``bin_`` to the front; return where the others begin."""
    for i in range(begin, end):  # no branch: the processor cannot predict which rows go where
        row = order[i]
        order[i], order[begin] = order[begin], row
        begin += bins[row, feature] <= bin_
    return begin


@kernel
def _count(histogram, bins, cells, rows):
    """Sum the cells of the ``rows`` into the ``histogram`` [features, BINS]."""
    histogram[:] = 0
    for row in rows:
        cell = cells[row]
        for feature in range(bins.shape[1]):
            histogram[feature, bins[row, feature]] += cell


@kernel
def _best_split(histogram, leaf, shape, inverse, finite, random, sums, bin_of):
    """Write the leaf's best split by randomly drawn features to ``leaf``; return its gain.

    ``finite`` [features] is the number of edges of each; ``sums`` and ``bin_of`` [BINS] are scratch. The gain is the
    reduction of the sum of squared errors, 0 without a split; of equal splits the first is the best.
    """
    rows, total, features = leaf[END] - leaf[BEGIN], leaf[TOTAL] >> ROWS_BITS, histogram.shape[0]
    best, wanted = 0.0, np.int64(np.ceil(shape.features * features))
    if rows < 2 * shape.min_rows:
        return best
    for feature in range(features):
        if uniform(random) * (features - feature) >= wanted:
            continue
        wanted -= 1
        below, ends = 0, 0
        for bin_ in range(finite[feature]):  # no branch: the processor cannot predict which bins are empty
            below += histogram[feature, bin_]
            sums[ends], bin_of[ends] = below, bin_
            ends += histogram[feature, bin_] != 0
        for end in range(ends):
            some = sums[end] & ROWS
            if some < shape.min_rows:
                continue
            if rows - some < shape.min_rows:
                break
            more = 1.0 * ((sums[end] >> ROWS_BITS) * rows - total * some)
            gain = more * more * (inverse[some] + inverse[rows - some])
            if gain > best:
                best, leaf[SPLIT], leaf[BIN] = gain, feature, bin_of[end]
    return best * inverse[rows] * inverse[rows]
