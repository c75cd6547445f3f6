"""Growth of cumulative counters between two samples: differences, wraps, resets, gaps.

LDMS samples counters that only grow (Nichols et al., section III-A). If a counter went down, it either wrapped, at 2^32 or 2^64,
or restarted with its node; only a wrap gives a difference. Every sampled value is counted under one of :data:`KINDS`.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

KINDS = ("difference", "wrap_32", "wrap_64", "reset", "gap", "first", "gauge", "null", "invalid")
"""Kinds of values. Rates come from ``difference``, ``wrap_32`` and ``wrap_64``, readings from ``gauge``. No rate comes from a ``reset``, a
``gap`` (the last value is too old), the ``first`` value of a node, a ``null``, or an ``invalid`` value: infinite, or negative though cumulative."""
DIFFERENCE, WRAP_32, WRAP_64, RESET, GAP, FIRST, GAUGE, NULL, INVALID = range(len(KINDS))

LONGEST_INTERVAL_S = 300.0
"""Max seconds between two samples that give a rate."""
NO_SAMPLE = np.int64(np.iinfo(np.int64).min)
"""A time before all others."""


@kernel
def increment(previous, value):
    """Return (growth, kind) between two finite, non-negative values of a counter.

    A smaller value is a wrap if the previous one lies in the last sixteenth of the smallest width, 32 or 64 bits, that holds it, and
    the new one in the first sixteenth; else a reset, whose growth is NaN.
    """
    if value >= previous:
        return value - previous, DIFFERENCE
    for span, kind in ((4294967296.0, WRAP_32), (18446744073709551616.0, WRAP_64)):
        # a 64-bit counter's last values are rounded to 2^64 itself
        holds = previous < span or (kind == WRAP_64 and previous == span)
        if holds:
            if previous >= span / 16 * 15 and value < span / 16:
                return (span - previous) + value, kind  # order matters: the large numbers cancel exactly
            return np.nan, RESET
    return np.nan, RESET


@kernel
def rates_if_all_grew(micros, last, sample, gauge, values, since, rate, counts):
    """Fill ``rate`` if no counter has fallen since ``last``; return whether.

    Each counter must have a value of that time. Nearly all samples are such. The loops have no branches, so that they vectorise. Arguments are those of
    :func:`rates_of_sample`; if False is returned only ``rate`` has changed.
    """
    seconds = (micros - last) / 1e6
    grew, gauges = True, 0
    for metric in range(len(sample)):
        value, read = sample[metric], gauge[metric]
        growth = value - values[metric]
        rate[metric] = value if read else np.true_divide(growth, seconds)
        grew &= (abs(value) < np.inf) & (read | ((growth >= 0) & (since[metric] == last)))
        gauges += read
    if grew:
        counts[DIFFERENCE] += len(sample) - gauges
        counts[GAUGE] += gauges
        for metric in range(len(sample)):
            values[metric] = sample[metric]
            since[metric] = micros
    return grew


@kernel
def rates_of_sample(micros, sample, gauge, values, since, longest, rate, counts):
    """Fill ``rate`` [metrics] from one sample of one node; return whether any rate is known.

    ``micros`` is the sample's time, ``sample`` [metrics] its values (NaN: null), ``gauge`` [metrics] whether the value itself is
    the rate. ``values`` and ``since`` [metrics] are the node's last values and their times (:data:`NO_SAMPLE` for none); both are
    updated. ``longest`` is in microseconds; ``counts`` [kinds] grows by one for each metric. ``rate`` is NaN where unknown.
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
            if last == NO_SAMPLE:
                counts[FIRST] += 1
            elif micros - last > longest:
                counts[GAP] += 1
            else:
                growth, kind = increment(values[metric], value)
                counts[kind] += 1
                rate[metric] = growth / ((micros - last) / 1e6)
                some = some or kind != RESET
            values[metric] = value
            since[metric] = micros
    return some
