"""The compiled part of the window features: it adds samples to the windows of open runs.

A window is a range of time buckets. A bucket is a second, split further where windows begin or end inside a second. So
a sample's bucket determines which windows hold it, and sums do not depend on other runs. Samples of a run's own nodes
go straight into the run. Samples of all nodes are summed by bucket, in a ring as long as a window; a run adds up its
buckets when its window ends.

Counters are cumulative. LDMS samples counters that only grow (Nichols et al., section III-A). If a counter went down, it either
wrapped, at 2^32 or 2^64, or restarted with its node; only a wrap gives a difference. Every sampled value is counted under one of
:data:`KINDS`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel, njit

KINDS = ("difference", "wrap_32", "wrap_64", "reset", "gap", "first", "gauge", "null", "invalid")
"""Kinds of values. Rates come from ``difference``, ``wrap_32`` and ``wrap_64``, readings from ``gauge``. No rate comes
from a ``reset``, a ``gap`` (the last value is too old), the ``first`` value of a node, a ``null``, or an ``invalid``
value: infinite, or negative though cumulative."""
DIFFERENCE, WRAP_32, WRAP_64, RESET, GAP, FIRST, GAUGE, NULL, INVALID = range(len(KINDS))

LONGEST_INTERVAL_S = 300.0
"""Max seconds between two samples that give a rate."""
NO_SAMPLE = np.int64(np.iinfo(np.int64).min)
"""A time before all others."""


@kernel
def increment(previous, value):
    """Return (growth, kind) between two finite, non-negative values of a counter.

    A smaller value is a wrap if the previous one lies in the last sixteenth of the smallest width, 32 or 64 bits, that
    holds it, and the new one in the first sixteenth; else a reset, whose growth is NaN.
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

    ``micros`` is the sample's time, ``sample`` [metrics] its values (NaN: null), ``gauge`` [metrics] whether the value
    itself is the rate. ``values`` and ``since`` [metrics] are the node's last values and their times (:data:`NO_SAMPLE`
    for none); both are updated. ``longest`` is in microseconds; ``counts`` [kinds] grows by one for each metric.
    ``rate`` is NaN where unknown.
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


SECOND = 1_000_000
"""Times are int64 microseconds of Unix time."""
INTERVAL_BINS = 360_000
"""Intervals between samples of a node are counted in hundredths of a second, up to an hour."""
MIN, MAX, SUM, COUNT = range(4)
HELD, WAITING = 2048, 16
"""Samples whose rates are kept, and how many of them wait to be added to a run's totals, four by four."""

DONE = -1
CLOCK, BUCKET, OVER, KNOWN = range(4)


class RunWindows(NamedTuple):
    """Runs in order of start, and the totals of their windows: ``[begin, end)`` in buckets."""

    cuts: np.ndarray  # int64 [cuts]: where seconds are split, microseconds within the second
    begin: np.ndarray  # int64 [runs]
    end: np.ndarray  # int64 [runs]
    own: np.ndarray  # float64 [runs, 4, metrics]: MIN, MAX, SUM, COUNT; no rows if that scope is not requested
    all: np.ndarray  # float64 [runs, 4, metrics]
    samples: np.ndarray  # int64 [runs, 2]: samples with a value, of own and of all nodes
    nodes: np.ndarray  # int64 [runs, 2]: nodes with such a sample
    seen_nodes: np.ndarray  # int64 [runs]: nodes sampled at any time before the window's end
    run_offsets: np.ndarray  # int64 [runs + 1]: where a run's nodes begin in run_nodes
    run_nodes: np.ndarray  # int64: nodes by run
    node_runs: np.ndarray  # int64: the same pairs as runs by node, each node's in order of start
    waiting: np.ndarray  # int64 [runs, 1 + WAITING]: number of samples not yet added to own totals, their places in Stream.rates
    ring: np.ndarray  # float64 [buckets, 4, metrics]
    ring_bucket: np.ndarray  # int64 [buckets]: the bucket in each place of the ring
    ring_samples: np.ndarray  # int64 [buckets]
    ring_waiting: np.ndarray  # int64 [buckets, 1 + WAITING]


class NodeCounters(NamedTuple):
    """State of every node; the arrays may have more rows than there are nodes."""

    values: np.ndarray  # float64 [nodes, metrics]: last value of each cumulative metric
    since: np.ndarray  # int64 [nodes, metrics]: its time
    last: np.ndarray  # int64 [nodes]: time of the last sample
    bucket: np.ndarray  # int64 [nodes]: bucket of the last sample with a value
    first_run: np.ndarray  # int64 [nodes]: first place in node_runs whose run is not over
    next_run: np.ndarray  # int64 [nodes]: first place in node_runs whose run is not open yet
    last_run: np.ndarray  # int64 [nodes]: where the node's runs end in node_runs


class Stream(NamedTuple):
    """State of the stream beside nodes and runs."""

    clock: np.ndarray  # int64 [4]: CLOCK, BUCKET of the last sample; runs that are OVER; nodes ever sampled (KNOWN)
    duplicates: np.ndarray  # int64 [1]: samples of a node at a time already sampled; the first counts
    counts: np.ndarray  # int64 [kinds]
    intervals: np.ndarray  # int64 [INTERVAL_BINS]
    sample: np.ndarray  # float64 [metrics]: values of the current row
    rates: np.ndarray  # float64 [HELD, metrics]: rates of the last rows


@kernel
def bucket_of(micros, cuts):
    second = micros // SECOND
    within = micros - second * SECOND
    bucket = second * (len(cuts) + 1)
    for cut in cuts:
        bucket += within >= cut
    return bucket


@njit
def buckets_of(micros, cuts):
    buckets = np.empty_like(micros)
    for place in range(len(micros)):
        buckets[place] = bucket_of(micros[place], cuts)
    return buckets


@kernel
def add(total, place, rate):
    """Add a sample's rates to row ``place`` of ``total`` [rows, 4, metrics]; NaN adds nothing.

    The loop has no branches, so that it vectorises.
    """
    for metric in range(len(rate)):
        value = rate[metric]
        known_value = value == value
        low, high = total[place, MIN, metric], total[place, MAX, metric]
        total[place, MIN, metric] = value if value < low else low
        total[place, MAX, metric] = value if value > high else high
        total[place, SUM, metric] += value if known_value else 0.0
        total[place, COUNT, metric] += 1.0 if known_value else 0.0


@kernel
def add_four(total, place, rates, rows):
    """Add four samples without NaN, ``rows`` [4] of ``rates``, in this order."""
    first, second, third, fourth = rows[0], rows[1], rows[2], rows[3]
    for metric in range(rates.shape[1]):
        low, high, sum_ = total[place, MIN, metric], total[place, MAX, metric], total[place, SUM, metric]
        for row in (first, second, third, fourth):
            value = rates[row, metric]
            low = value if value < low else low
            high = value if value > high else high
            sum_ += value
        total[place, MIN, metric] = low
        total[place, MAX, metric] = high
        total[place, SUM, metric] = sum_
        total[place, COUNT, metric] += 4.0


@kernel
def add_later(total, place, waiting, rates, row, whole):
    """Add row ``row`` of ``rates`` to a total, with the next rows if it is ``whole``."""
    if waiting[place, 0] == WAITING or not whole:
        add_waiting(total, place, waiting, rates)
    if whole:
        waiting[place, 0] += 1
        waiting[place, waiting[place, 0]] = row
    else:
        add(total, place, rates[row])


@apart
def add_waiting(total, place, waiting, rates):
    """Add the samples that wait for the next ones."""
    count, done = waiting[place, 0], 0
    while done + 4 <= count:
        add_four(total, place, rates, waiting[place, 1 + done :])
        done += 4
    for i in range(done, count):
        add(total, place, rates[waiting[place, 1 + i]])
    waiting[place, 0] = 0


@apart
def add_all_waiting(first, windows, stream):
    """Add the samples that wait to the totals of runs from ``first`` on, and to the ring."""
    run = first
    while len(windows.own) and run < len(windows.begin) and windows.begin[run] <= stream.clock[BUCKET]:
        add_waiting(windows.own, run, windows.waiting, stream.rates)
        run += 1
    add_waiting(windows.ring, stream.clock[BUCKET] % len(windows.ring), windows.ring_waiting, stream.rates)


@apart
def close(bucket, windows, nodes, stream):
    """Finish the runs whose windows end at or before ``bucket``."""
    run = stream.clock[OVER]
    size = len(windows.ring_bucket)
    while run < len(windows.end) and windows.end[run] <= bucket:
        if len(windows.all):
            for inside in range(windows.begin[run], windows.end[run]):
                place = inside % size
                if windows.ring_bucket[place] == inside:
                    windows.samples[run, 1] += windows.ring_samples[place]
                    for metric in range(windows.all.shape[2]):
                        low, high = windows.all[run, MIN, metric], windows.all[run, MAX, metric]
                        windows.all[run, MIN, metric] = min(low, windows.ring[place, MIN, metric])
                        windows.all[run, MAX, metric] = max(high, windows.ring[place, MAX, metric])
                        windows.all[run, SUM, metric] += windows.ring[place, SUM, metric]
                        windows.all[run, COUNT, metric] += windows.ring[place, COUNT, metric]
        for bucket_of_node in nodes.bucket:
            windows.nodes[run, 1] += bucket_of_node >= windows.begin[run]
        for place in range(windows.run_offsets[run], windows.run_offsets[run + 1]):
            windows.nodes[run, 0] += nodes.bucket[windows.run_nodes[place]] >= windows.begin[run]
        windows.seen_nodes[run] = stream.clock[KNOWN]
        run += 1
    stream.clock[OVER] = run


@apart
def take(micros, node, values, gauge, longest, windows, nodes, stream):
    """Process a batch: ``micros``, ``node`` int64 [rows], ``values`` float64 [metrics, rows].

    ``values`` may have more columns than there are rows. Return DONE, or the first row whose time is earlier than that
    of a previous row.
    """
    clock, first = stream.clock, stream.clock[OVER]
    for row in range(len(micros)):
        now = micros[row]
        if now < clock[CLOCK]:
            return row
        clock[CLOCK] = now
        held = row % HELD
        if held == 0:
            add_all_waiting(first, windows, stream)
            first = clock[OVER]
        bucket = bucket_of(now, windows.cuts)
        if bucket != clock[BUCKET]:
            add_waiting(windows.ring, clock[BUCKET] % len(windows.ring), windows.ring_waiting, stream.rates)
            clock[BUCKET] = bucket
            close(bucket, windows, nodes, stream)
        at = node[row]
        last = nodes.last[at]
        if last == now:
            stream.duplicates[0] += 1
            continue
        if last == NO_SAMPLE:
            clock[KNOWN] += 1
        else:
            stream.intervals[min(max((now - last + 5_000) // 10_000, 1), INTERVAL_BINS - 1)] += 1
        nodes.last[at] = now
        for metric in range(len(stream.sample)):
            stream.sample[metric] = values[metric, row]
        rate, before, since = stream.rates[held], nodes.values[at], nodes.since[at]
        near = last != NO_SAMPLE and now - last <= longest
        whole = near and rates_if_all_grew(now, last, stream.sample, gauge, before, since, rate, stream.counts)
        if not whole and not rates_of_sample(now, stream.sample, gauge, before, since, longest, rate, stream.counts):
            continue
        nodes.bucket[at] = bucket
        over = clock[OVER]
        if len(windows.all) and over < len(windows.end) and windows.begin[over] <= bucket:
            place = bucket % len(windows.ring_bucket)
            if windows.ring_bucket[place] != bucket:
                windows.ring_bucket[place] = bucket
                windows.ring_samples[place] = 0
                clear(windows.ring, place)
            windows.ring_samples[place] += 1
            add_later(windows.ring, place, windows.ring_waiting, stream.rates, held, whole)
        ended, opened = nodes.first_run[at], nodes.next_run[at]
        while opened < nodes.last_run[at] and windows.begin[windows.node_runs[opened]] <= bucket:
            opened += 1
        while ended < opened and windows.end[windows.node_runs[ended]] <= bucket:
            ended += 1
        nodes.first_run[at], nodes.next_run[at] = ended, opened
        for place in range(ended, opened):
            run = windows.node_runs[place]
            windows.samples[run, 0] += 1
            add_later(windows.own, run, windows.waiting, stream.rates, held, whole)
    add_all_waiting(first, windows, stream)
    return DONE


@kernel
def clear(total, place):
    total[place, MIN] = np.inf
    total[place, MAX] = -np.inf
    total[place, SUM] = 0.0
    total[place, COUNT] = 0.0
