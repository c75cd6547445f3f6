"""Window features: min, max and mean of every metric before each run's start.

Nichols et al. (RUSH), sections III-A and III-D: counters aggregated over the five minutes before a run, over its own
nodes and over all nodes. This is one range join of samples and windows, streamed in order of time in bounded memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from features.errors import InputError
from features.monitoring import window_kernel
from features.monitoring.samplers import STATISTICS, WINDOW_S, Sampler, sampler_of
from features.monitoring.window_kernel import NodeCounters, RunWindows, Stream, buckets_of, close, take

Scope = Literal["own", "all", "both"]
Batch: TypeAlias = Any  # an Arrow RecordBatch or Table, or a DataFrame
KEYS = ("time_s", "node")
_PIECE = 16_376
"""Rows processed at a time, so that they stay in the processor's cache between the steps.

A power of two would put all metrics of a row into the same few places of the cache.
"""


@dataclass(frozen=True)
class WindowFeatures:
    """Features of runs from the counters of one sampler, or of several (:func:`side_by_side`).

    ``own``, ``all``: float64 [runs, metrics x 3], index ``run_id`` in the order of the runs, columns
    ``<sampler>.<metric>.<min|max|mean>``; over the run's own nodes and over all nodes; None if not requested. Rates are
    in the metric's unit per second. NaN if no sample gives a value.

    ``coverage``: the number of samples, same index, by scope: ``<sampler>.<own|all>.samples``, the samples in the
    window with at least one value; ``.nodes``, the nodes with such a sample; ``.expected``, the samples of all the
    run's nodes, or of all nodes ever sampled before the window's end, at the sampler's usual interval (NaN if no node
    was sampled twice).

    ``counts``: int64, values by kind, ``<sampler>.<kind>`` for :data:`features.monitoring.window_kernel.KINDS`;
    ``<sampler>.duplicate``, samples of a node at a time already sampled, of which the first counts; ``.samples``
    (without duplicates) and ``.nodes``, the totals; ``.vanished``, nodes whose last sample lies longer than the longest
    interval before the last of all.

    ``interval_s``: by sampler, the usual time between samples of a node: the median, rounded to a hundredth of a second
    and at least one hundredth.
    """

    own: pd.DataFrame | None
    all: pd.DataFrame | None
    coverage: pd.DataFrame
    counts: pd.Series
    interval_s: pd.Series


def window_features(
    batches: Iterable[Batch],
    runs: pd.DataFrame,
    sampler: Sampler | str,
    *,
    window_s: float = WINDOW_S,
    lag_s: float = 0.0,
    scope: Scope = "both",
    longest_interval_s: float = window_kernel.LONGEST_INTERVAL_S,
) -> WindowFeatures:
    """Return min, max and mean of a sampler's metrics over the window before each run's start.

    ``batches``: tables of one sampler, ``time_s`` float64 (Unix seconds), ``node`` text and one column per metric, rows in order
    of time within and across batches. Samples more than ``window_s`` plus the longest interval before a start are not needed and
    may be left out. ``runs``: canonical control runs (``run_id``, ``nodes``, ``start_s``), in any order. ``sampler``: a
    :class:`Sampler`, whose metrics become the columns, null where a batch lacks one; or a name known to
    :func:`features.monitoring.samplers.sampler_of`, with the metrics of the first batch.

    A sample at ``t`` counts for a run started at ``s`` if s - window_s <= t < s - lag_s; times are rounded to the
    microsecond. The rate of a cumulative metric belongs to the later of its two samples: an interval that began before
    the window counts if it ended inside; one that ends at the start does not. The earlier value is the node's last one
    for that metric, unless it is older than ``longest_interval_s``. Min, max and mean are over all samples of all
    nodes: a node sampled more often weighs more.

    Memory: the result, the last sample of each node, the buckets of a window. Raises InputError for rows back in time,
    missing columns, null times or nodes, metrics that the sampler does not name, and runs that share a ``run_id`` or
    name a node twice.
    """
    window, lag, longest = (round(value * window_kernel.SECOND) for value in (window_s, lag_s, longest_interval_s))
    if not 0 <= lag < window:
        raise InputError(f"a window of {window_s} s that ends {lag_s} s before the start holds nothing")
    if longest <= 0:
        raise InputError(f"the longest interval between samples must be positive, not {longest_interval_s} s")
    if scope not in ("own", "all", "both"):
        raise InputError(f"scope must be 'own', 'all' or 'both', not {scope!r}")
    join = None
    for batch in batches:
        table = _table(batch)
        if join is None:
            if isinstance(sampler, str):
                sampler = sampler_of(sampler, (name for name in table.schema.names if name not in KEYS))
            join = _Join(sampler, runs, window, lag, longest, scope)
        join.take(table)
    if join is None:
        if isinstance(sampler, str):
            raise InputError(f"no counters of {sampler}, so the names of its metrics are unknown")
        join = _Join(sampler, runs, window, lag, longest, scope)
    return join.result()


def side_by_side(parts: Sequence[WindowFeatures]) -> WindowFeatures:
    """Join several samplers' features of the same runs, columns in the order given."""
    if not parts:
        raise InputError("no features of any sampler")
    index = parts[0].coverage.index
    if not all(part.coverage.index.equals(index) for part in parts):
        raise InputError("the samplers' features are of different runs")

    def columns(frames: Sequence[pd.DataFrame | None]) -> pd.DataFrame | None:
        present = [frame for frame in frames if frame is not None]
        if 0 < len(present) < len(frames):
            raise InputError("the samplers' features are of different scopes")
        return pd.concat(present, axis=1) if present else None

    return WindowFeatures(
        columns([part.own for part in parts]),
        columns([part.all for part in parts]),
        pd.concat([part.coverage for part in parts], axis=1),
        pd.concat([part.counts for part in parts]),
        pd.concat([part.interval_s for part in parts]),
    )


class _Join:
    """The state of one streamed join, which feeds the kernel."""

    def __init__(self, sampler: Sampler, runs: pd.DataFrame, window: int, lag: int, longest: int, scope: Scope) -> None:
        self.sampler, self.runs, self.scope = sampler, runs, scope
        self.window, self.lag, self.longest = window, lag, longest
        self.gauge = np.array([metric in sampler.gauges for metric in sampler.metrics], bool)
        self.codes: dict[str, int] = {}
        self.dictionary, self.code_of = pa.nulls(0), np.zeros(0, np.int64)  # names of a piece's nodes, their codes
        self.values = np.empty((len(sampler.metrics), _PIECE))
        self.batch = 0
        absent = [column for column in ("run_id", "nodes", "start_s") if column not in runs]
        if absent:
            raise InputError(f"runs have no column {absent[0]!r}")
        if runs["start_s"].isna().any():
            raise InputError(f"run {runs.loc[runs['start_s'].isna(), 'run_id'].iloc[0]!r} has no start")
        again = runs["run_id"].duplicated().to_numpy()
        if again.any():
            raise InputError(f"run_id {runs['run_id'].to_numpy()[again][0]!r} stands for several runs")
        metrics = len(sampler.metrics)
        start = runs["start_s"].to_numpy(np.int64) * window_kernel.SECOND
        self.order = np.argsort(start, kind="stable")
        cuts = np.array(sorted({-window % window_kernel.SECOND, -lag % window_kernel.SECOND} - {0}), np.int64)
        begin, end = (buckets_of(start[self.order] - edge, cuts) for edge in (window, lag))
        offsets, run_nodes = self._nodes_of_runs()
        pairs = np.argsort(run_nodes, kind="stable")  # stable: each node's runs stay in order of start
        length = int((end - begin).max(initial=0)) + 1
        count = len(runs)
        self.windows = RunWindows(
            cuts=cuts,
            begin=begin,
            end=end,
            own=_totals(count if scope != "all" else 0, metrics),
            all=_totals(count if scope != "own" else 0, metrics),
            samples=np.zeros((count, 2), np.int64),
            nodes=np.zeros((count, 2), np.int64),
            seen_nodes=np.zeros(count, np.int64),
            run_offsets=offsets,
            run_nodes=run_nodes,
            node_runs=np.repeat(np.arange(count), np.diff(offsets))[pairs],
            waiting=np.zeros((count, 1 + window_kernel.WAITING), np.int64),
            ring=_totals(length, metrics),
            ring_bucket=np.full(length, window_kernel.NO_SAMPLE),
            ring_samples=np.zeros(length, np.int64),
            ring_waiting=np.zeros((length, 1 + window_kernel.WAITING), np.int64),
        )
        bounds = np.searchsorted(run_nodes[pairs], np.arange(len(self.codes) + 1))
        self.nodes = _nodes(bounds[:-1], bounds[1:], metrics)
        self.stream = Stream(
            clock=np.array([window_kernel.NO_SAMPLE, window_kernel.NO_SAMPLE, 0, 0]),
            duplicates=np.zeros(1, np.int64),
            counts=np.zeros(len(window_kernel.KINDS), np.int64),
            intervals=np.zeros(window_kernel.INTERVAL_BINS, np.int64),
            sample=np.empty(metrics),
            rates=np.empty((window_kernel.HELD, metrics)),
        )

    def _nodes_of_runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets int64 [runs + 1] and codes of the runs' nodes, in order of start.

        No codes if own nodes are not requested.
        """
        run_id, nodes_of = (self.runs[column].iloc[self.order].tolist() for column in ("run_id", "nodes"))
        for run, nodes in zip(run_id, nodes_of, strict=True):
            if not pd.api.types.is_list_like(nodes):
                raise InputError(f"run {run!r} has no list of nodes")
        sizes = np.array([len(nodes) for nodes in nodes_of], np.int64)
        codes, names = pd.factorize(np.array([str(node) for nodes in nodes_of for node in nodes], object))
        place = np.repeat(np.arange(len(sizes)), sizes)
        twice = pd.Series(place * len(names) + codes).duplicated().to_numpy()
        if twice.any():
            raise InputError(f"run {run_id[place[twice][0]]!r} names a node twice")
        if self.scope == "all":
            return np.zeros(len(sizes) + 1, np.int64), codes[:0]
        self.codes = {name: code for code, name in enumerate(names)}
        return np.concatenate(([0], sizes.cumsum())), codes

    def take(self, table: pa.Table) -> None:
        self.batch += 1
        unknown = sorted(set(table.schema.names) - {*KEYS, *self.sampler.metrics})
        if unknown:
            raise InputError(
                f"batch {self.batch} of {self.sampler.name} has metrics that the sampler does not name: {' '.join(unknown)}"
            )
        for piece in table.to_batches(max_chunksize=_PIECE):
            if not piece.num_rows:
                continue
            time_s = piece["time_s"].to_numpy(zero_copy_only=False)
            if not np.isfinite(time_s).all():
                raise InputError(f"batch {self.batch} of {self.sampler.name} has samples whose time is not a number")
            micros = np.rint(time_s * window_kernel.SECOND).astype(np.int64)
            node = self._codes_of(piece["node"])
            for place, metric in enumerate(self.sampler.metrics):
                self.values[place, : len(micros)] = _numbers(piece[metric]) if metric in table.schema.names else np.nan
            row = take(micros, node, self.values, self.gauge, self.longest, self.windows, self.nodes, self.stream)
            if row != window_kernel.DONE:
                raise InputError(
                    f"batch {self.batch} of {self.sampler.name} goes back in time: a sample of {piece['node'][row].as_py()} "
                    f"at {time_s[row]:.6f} s follows a later one"
                )

    def _codes_of(self, column: pa.Array) -> np.ndarray:
        """Return the codes of a piece's nodes, int64 [rows]; make room for new nodes."""
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        used = column.indices.to_numpy()
        if column.dictionary.equals(self.dictionary):
            return self.code_of[used]
        self.dictionary = column.dictionary
        codes = [self.codes.setdefault(str(node), len(self.codes)) for node in column.dictionary.to_pylist()]
        self.code_of = np.array(codes, np.int64)
        if len(self.codes) > len(self.nodes.last):
            more = max(len(self.codes), 2 * len(self.nodes.last)) - len(self.nodes.last)
            none = np.zeros(more, np.int64)
            parts = zip(self.nodes, _nodes(none, none, len(self.gauge)), strict=True)
            self.nodes = NodeCounters(*(np.concatenate(part) for part in parts))
        return self.code_of[used]

    def result(self) -> WindowFeatures:
        windows, stream, name = self.windows, self.stream, self.sampler.name
        close(np.iinfo(np.int64).max, windows, self.nodes, stream)
        index = pd.Index(self.runs["run_id"], name="run_id")
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(self.order))
        interval_s = self._interval_s()
        expected = (self.window - self.lag) / window_kernel.SECOND / interval_s
        nodes = np.column_stack([np.diff(windows.run_offsets), windows.seen_nodes])
        coverage = {}
        for place, scope in enumerate(("own", "all")):
            if self.scope in (scope, "both"):
                coverage[f"{name}.{scope}.samples"] = windows.samples[back, place]
                coverage[f"{name}.{scope}.nodes"] = windows.nodes[back, place]
                coverage[f"{name}.{scope}.expected"] = nodes[back, place] * expected
        sampled = self.nodes.last[self.nodes.last != window_kernel.NO_SAMPLE]
        counts = {f"{name}.{kind}": count for kind, count in zip(window_kernel.KINDS, stream.counts, strict=True)}
        counts[f"{name}.duplicate"] = stream.duplicates[0]
        counts[f"{name}.samples"] = stream.counts.sum() // max(1, len(self.gauge))
        counts[f"{name}.nodes"] = stream.clock[window_kernel.KNOWN]
        counts[f"{name}.vanished"] = (stream.clock[0] - sampled > self.longest).sum()
        return WindowFeatures(
            own=self._frame(windows.own, back, index) if self.scope != "all" else None,
            all=self._frame(windows.all, back, index) if self.scope != "own" else None,
            coverage=pd.DataFrame(coverage, index=index),
            counts=pd.Series(counts, dtype=np.int64),
            interval_s=pd.Series({name: interval_s}),
        )

    def _frame(self, totals: np.ndarray, back: np.ndarray, index: pd.Index) -> pd.DataFrame:
        count = np.where(totals[:, window_kernel.COUNT] > 0, totals[:, window_kernel.COUNT], np.nan)
        matrix = np.empty((len(totals), totals.shape[2], len(STATISTICS)))
        matrix[..., 0] = np.where(count > 0, totals[:, window_kernel.MIN], np.nan)
        matrix[..., 1] = np.where(count > 0, totals[:, window_kernel.MAX], np.nan)
        matrix[..., 2] = totals[:, window_kernel.SUM] / count
        columns = [f"{self.sampler.name}.{metric}.{statistic}" for metric in self.sampler.metrics for statistic in STATISTICS]
        return pd.DataFrame(matrix.reshape(len(totals), len(columns))[back], index=index, columns=columns, copy=False)

    def _interval_s(self) -> float:
        cumulative = np.cumsum(self.stream.intervals)
        if cumulative[-1] == 0:
            return float("nan")
        return float(np.searchsorted(cumulative, (cumulative[-1] + 1) // 2)) / 100


def _table(batch: Batch) -> pa.Table:
    """Return the batch as an Arrow table; raise InputError for missing or null keys."""
    if isinstance(batch, pd.DataFrame):
        batch = pa.Table.from_pandas(batch, preserve_index=False)
    for key in KEYS:
        if key not in batch.schema.names:
            raise InputError(f"counters have no column {key!r}")
        if batch[key].null_count:
            raise InputError(f"{batch[key].null_count} samples have no {key}")
    for field in batch.schema:
        numeric = pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        if field.name not in KEYS and not numeric:
            raise InputError(f"counters of metric {field.name!r} are not numbers but {field.type}")
    return pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch


def _numbers(column: pa.Array) -> np.ndarray:
    """Return float64 [rows], NaN for null."""
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)


def _nodes(first_run: np.ndarray, last_run: np.ndarray, metrics: int) -> NodeCounters:
    """Return nodes without samples, whose runs lie between the given places in node_runs."""
    count = len(first_run)
    values, since = np.full((count, metrics), np.nan), np.full((count, metrics), window_kernel.NO_SAMPLE)
    return NodeCounters(
        values,
        since,
        np.full(count, window_kernel.NO_SAMPLE),
        np.full(count, window_kernel.NO_SAMPLE),
        first_run.copy(),
        first_run.copy(),
        last_run.copy(),
    )


def _totals(rows: int, metrics: int) -> np.ndarray:
    totals = np.zeros((rows, 4, metrics))
    totals[:, window_kernel.MIN], totals[:, window_kernel.MAX] = np.inf, -np.inf
    return totals
