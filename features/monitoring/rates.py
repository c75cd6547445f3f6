"""Growth of cumulative counters between two samples: differences, wraps, resets, gaps.

LDMS samples counters that only grow (Nichols et al., section III-A). A counter that went down either wrapped, at 2^32 or 2^64, or
started anew with its node; only a wrap leaves a difference. Every sampled value is counted under one of :data:`KINDS`.
"""

from __future__ import annotations

import numpy as np

from features.errors import InputError
from features.jit import kernel, njit

KINDS = ("difference", "wrap_32", "wrap_64", "reset", "gap", "first", "gauge", "null", "invalid")
"""Kinds of values. Rates come from ``difference``, ``wrap_32`` and ``wrap_64``, readings from ``gauge``. No rate comes from a ``reset``, a
``gap`` (the last value is too old), the ``first`` value of a node, a ``null``, or an ``invalid`` value: infinite, or negative though cumulative."""
DIFFERENCE, WRAP_32, WRAP_64, RESET, GAP, FIRST, GAUGE, NULL, INVALID = range(len(KINDS))

LONGEST_INTERVAL_S = 300.0
"""Max seconds between two samples that give a rate."""
NEVER = np.int64(np.iinfo(np.int64).min)
"""A time before all others."""


@kernel
def increment(previous, value, width_bits):
    """Return (growth, kind) between two finite, non-negative values of a counter.

    See :func:`increments`.
    """
    if value >= previous:
        return value - previous, DIFFERENCE
    for width, span, kind in ((32, 4294967296.0, WRAP_32), (64, 18446744073709551616.0, WRAP_64)):
        # a 64-bit counter's last values are rounded to 2^64 itself
        holds = previous < span or (width == 64 and previous == span)
        if holds and width_bits in (0, width):
            if previous >= span / 16 * 15 and value < span / 16:
                return (span - previous) + value, kind  # in this order: the large numbers cancel exactly
            return np.nan, RESET
    return np.nan, RESET


@kernel
def rates_of_sample(micros, sample, gauge, values, since, longest, rate, counts):
    """Fill ``rate`` [metrics] from one sample of one node; return whether any rate is known.

    ``micros`` is the sample's time, ``sample`` [metrics] what was read (NaN: null), ``gauge`` [metrics] whether the reading
    itself counts. ``values`` and ``since`` [metrics] are the node's last values and their times (:data:`NEVER` for none) and are
    updated; ``longest`` is in microseconds; ``counts`` [kinds] grows by one for each metric. ``rate`` is NaN where unknown.
    """
    some = False
    for metric in range(len(sample)):
        value = sample[metric]
        rate[metric] = np.nan
        if np.isnan(value):
            counts[NULL] += 1
        elif np.isinf(value) or (value < 0 and not gauge[metric]):
            counts[INVALID] += 1
        elif gauge[metric]:
            counts[GAUGE] += 1
            rate[metric] = value
            some = True
        else:
            last = since[metric]
            if last == NEVER:
                counts[FIRST] += 1
            elif micros - last > longest:
                counts[GAP] += 1
            else:
                growth, kind = increment(values[metric], value, 0)
                counts[kind] += 1
                rate[metric] = growth / ((micros - last) / 1e6)
                some = some or kind != RESET
            values[metric] = value
            since[metric] = micros
    return some


def increments(previous: np.ndarray, value: np.ndarray, width_bits: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the growth of counters from ``previous`` to ``value``, and its kind.

    Both arguments are float64 of one shape; so is the growth, in the counters' unit. Kinds are int64 places in :data:`KINDS`. A
    value not below the previous one is a plain difference. A smaller one is a wrap if the previous value lies in the last
    sixteenth below 2^``width_bits`` and the new one in the first sixteenth of that range; else a reset, whose growth is NaN.
    Without a width (32 or 64), the smallest one that holds the previous value is taken. NaN, infinite and negative values on
    either side are null or invalid, their growth NaN.
    """
    if width_bits not in (None, 32, 64):
        raise InputError(f"counters are 32 or 64 bits wide, not {width_bits}")
    previous, value = (np.ascontiguousarray(each, np.float64) for each in np.broadcast_arrays(previous, value))
    growth = np.empty(value.shape)
    kind = np.empty(value.shape, np.int64)
    _increments(previous.reshape(-1), value.reshape(-1), width_bits or 0, growth.reshape(-1), kind.reshape(-1))
    return growth, kind


@njit
def _increments(previous, value, width_bits, growth, kind):
    for place in range(len(value)):
        if np.isnan(previous[place]) or np.isnan(value[place]):
            growth[place], kind[place] = np.nan, NULL
        elif min(previous[place], value[place]) < 0 or np.isinf(previous[place]) or np.isinf(value[place]):
            growth[place], kind[place] = np.nan, INVALID
        else:
            growth[place], kind[place] = increment(previous[place], value[place], width_bits)
