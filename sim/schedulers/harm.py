"""Constants and arrays of ``Harm``, the algorithm of :mod:`sim.kernel.harm`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from features.deferred import pd
from models.runtime.dispatch import tells_quantiles
from models.runtime.distribution import LEVELS, from_table
from models.runtime.options import Option, parse, read
from models.runtime.protocol import CompiledPredictor, Predictor, TablePredictor, TellsQuantiles
from sim.kernel.cluster_scenarios import UNKNOWN
from sim.kernel.harm import CONSTANTS, FACTS, MACHINE, SCALES
from sim.kernel.scenarios import FOUND, NO_TABLES, NUMBERS, WIDTHS, Room, Scenarios, Tables
from sim.kernel.scratch import Scratch
from sim.kernel.state import Jobs
from sim.machine.nodes import Nodes

MOST_SCENARIOS = 1024
KINDS = 1 << 12
"""Rows of ``Tables.delayed``, and of ``Scenarios.until`` on nodes; kinds of jobs without a row of their own share
one."""


@dataclass(frozen=True)
class Harm:
    """The options of ``Harm(...)``: the number of scenarios and the constants of the rule.

    They were chosen on the first halves of five traces and of three widened ones at several loads
    (docs/studies/expected-harm.md). They have no unit: the scales of seconds and processors follow the jobs that have
    ended.
    """

    scenarios: int = 16
    """Number of scenarios. Under heavy load 4 are too few; 64 give the same as 16."""
    width_credit: float = 0.2
    """Credit for width in the order of the queue, in parts of Z, for a job as wide as the machine."""
    fairness: float = 2.0
    """Weight in harm of the share of P2SF that the head of the queue has: 1 to 4; above that, jobs behind the head
    pay."""
    lateness: float = 4.0
    """Weight of a job's share of P2SF in its gain."""
    urgency: float = 0.5
    """Weight of slowdown in a job's gain: more lowers slowdown, and AWF and P2SF pay."""
    order_urgency: float = 2.0
    """Weight of slowdown in the order of candidates."""
    packing: float = 1.0
    """Weight of the processors of the head of the queue in harm."""
    short: float = 0.05
    """Jobs that end within this time, in parts of Z, may pass a head of the queue that fits too."""
    short_level: float = 0.9
    """Level of the quantile of the runtime that must lie below ``short``."""


_OPTIONS = {option: Option(usual, minimum=0.0) for option, usual in asdict(Harm()).items()} | {
    "scenarios": Option(Harm.scenarios, minimum=1, maximum=MOST_SCENARIOS),
    "short_level": Option(Harm.short_level, minimum=0.0, maximum=1.0),
}


def harm(text: str) -> Harm:
    """Return the constants of ``Harm(TEXT)``; InputError for unknown options and values."""
    return Harm(**read(parse(text), _OPTIONS))


def uniforms(rows: int, count: int, seed: int) -> np.ndarray:
    """Return stratified numbers in [0, 1), float64 [rows, count].

    Each row has one number in each ``count``-th of [0, 1), in a random order. A row's numbers depend only on its place
    and the seed: a counter is hashed (SplitMix64; Steele, Lea & Flood 2014).
    """
    drawn = np.empty((rows, count))
    step = max(1, (1 << 14) // count)  # rows whose numbers stay in the processor's cache
    for first in range(0, rows, step):
        size = min(step, rows - first)
        counter = np.arange(2 * first * count, 2 * (first + size) * count, dtype=np.uint64)
        bits = _mixed(counter + _mixed(np.array([seed], np.uint64))).reshape(size, 2, count)
        within = (bits[:, 0] >> np.uint64(11)) * 2.0**-53
        drawn[first : first + size] = (np.argsort(bits[:, 1], axis=1) + within) / count
    return drawn


def _mixed(counter: np.ndarray) -> np.ndarray:
    mixed = (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def told_beforehand(source: Predictor, jobs: pd.DataFrame, requested: np.ndarray) -> tuple[int, np.ndarray | None]:
    """Return the number of levels at which ``source`` predicts, and its quantiles if known.

    They are whole seconds, int64 [rows, levels]. A point prediction has one level.
    """
    if isinstance(source, TablePredictor):
        table = source.quantiles(jobs) if source.quantiles is not None else pd.DataFrame()
        return (len(LEVELS), from_table(table, requested)) if table.shape[1] > 0 else (1, None)
    if isinstance(source, CompiledPredictor):
        return len(LEVELS) if tells_quantiles(source.code) else 1, None
    return len(LEVELS) if isinstance(source, TellsQuantiles) else 1, None


def as_scenarios(
    rule: Harm,
    source: Predictor,
    jobs: pd.DataFrame,
    arrays: Jobs,
    procs: int,
    seed: int,
    scratch: Scratch,
    nodes: Nodes | None = None,
) -> Scenarios:
    """Return fresh arrays of ``rule`` for ``jobs`` on ``procs`` processors or on ``nodes``.

    ``arrays`` are the jobs' columns in the order of the table.
    """
    total, count, most = len(jobs), rule.scenarios, min(len(jobs), 2 * procs)
    levels, predicted = told_beforehand(source, jobs, arrays.requested)
    scales = np.zeros(SCALES)
    scales[: len(CONSTANTS)] = [getattr(rule, name) for name in CONSTANTS]
    scales[MACHINE] = procs
    quantiles = scratch.take("quantiles", total, levels)
    if predicted is not None:
        quantiles[:] = predicted
    return Scenarios(
        np.zeros(NUMBERS, np.int64),
        scales,
        uniforms(total, count, seed),
        quantiles,
        scratch.take("seconds", total, count),
        scratch.take("outlived", total),
        scratch.take("alive", most),
        scratch.take("scenario ends", count, most),
        scratch.take("owner", count, most),
        scratch.take("head", 3, count),
        np.zeros((WIDTHS if nodes is None else KINDS, FOUND + count), np.int64),
        scratch.take("waiting", total),
        scratch.take("facts", total, FACTS, dtype=np.float64),
        NO_TABLES if nodes is None else _tables(nodes, total, count),
    )


def _tables(nodes: Nodes, jobs: int, count: int) -> Tables:
    def room() -> Room:
        node, total, first, first_total = (np.zeros(size, np.int64) for size in [len(nodes.free), len(nodes.first) - 1] * 2)
        return Room(node, total, first, first_total, np.full(jobs, UNKNOWN))

    return Tables(room(), room(), np.zeros((KINDS, FOUND + count), np.int64), np.zeros(len(nodes.free), np.int64))
