"""Sensors: each node's noisy counters, sampled as by LDMS, and the features of windows.

A counter counts a mixture of events at its node. Between two samples it grows by a whole number; only the rate between
them is visible. The same whole numbers are written out as LDMS files, so features made from those are equal, number by
number.
"""

from __future__ import annotations

import numpy as np

from features.chance import bits, normal_of, uniform_of
from features.jit import apart, kernel
from features.monitoring.samplers import WINDOW_S
from sim.cluster import layout


@kernel
def gather(site):
    """Move each node's events since the last sample to ``site.latents``."""
    interval = 1.0 * site.clock[layout.INTERVAL_S]
    latents = site.latents
    for node in range(len(site.owner)):
        slot = site.owner[node]
        leaf = node // site.clock[layout.NODES_PER_LEAF]
        stretch = site.leaves[leaf, layout.STRETCH_SUM] / interval
        for k in range(layout.LATENTS):
            latents[k, node] = site.pending[k, node]
            site.pending[k, node] = 0.0
        if slot >= 0:
            for k in range(layout.LATENTS):
                latents[k, node] += site.sums[slot, k]
            latents[layout.CROSSED, node] += site.sums[slot, layout.SENT] * (1.0 - site.spread[slot, leaf] / site.slot_nodes[slot])
        latents[layout.PORT_WAIT, node] = latents[layout.CROSSED, node] * stretch
        latents[layout.UPLINK_LOAD, node] = site.leaves[leaf, layout.LOAD_SUM]
        latents[layout.CONGESTION, node] = site.leaves[leaf, layout.STRETCH_SUM]
        latents[layout.TIME, node] = interval
    for slot in range(site.clock[layout.SLOTS]):
        for k in range(layout.LATENTS):
            site.sums[slot, k] = 0.0
    for leaf in range(site.leaves.shape[0]):
        site.leaves[leaf, layout.LOAD_SUM] = 0.0
        site.leaves[leaf, layout.STRETCH_SUM] = 0.0


@apart
def sample(site):
    """Read all sensors in use."""
    gather(site)
    taken = site.clock[layout.SAMPLES] + 1
    site.clock[layout.SAMPLES] = taken
    at = taken % site.ring.shape[0]
    recording = site.record.shape[0] > 0
    interval = 1.0 * site.clock[layout.INTERVAL_S]
    nodes = len(site.owner)
    noise = site.physics[layout.SENSOR_NOISE]
    for i in range(len(site.used)):
        counter = site.used[i]
        sensor = site.sensors[counter]
        one, two = np.int64(sensor[layout.ONE]), np.int64(sensor[layout.TWO])
        gain_one, gain_two, base, gauge = (
            sensor[layout.GAIN_ONE],
            sensor[layout.GAIN_TWO],
            sensor[layout.BASE] * interval,
            sensor[layout.GAUGE],
        )
        least, most, total = np.inf, -np.inf, 0.0
        for node in range(nodes):
            grown = gauge
            if gauge == 0.0:
                drawn = bits(site.random)
                exact = gain_one * site.latents[one, node] + gain_two * site.latents[two, node] + base
                noisy = max(exact * (1.0 + noise * normal_of(drawn)), 0.0) + uniform_of(drawn)
                grown = 1.0 * np.int64(noisy)
            value = grown if gauge > 0.0 else grown / interval
            site.ring[at, counter, node] = value
            if recording:
                site.record[site.clock[layout.RECORDED], counter, node] = grown
            least = min(least, value)
            most = max(most, value)
            total += value
        site.every[at, counter, 0] = least
        site.every[at, counter, 1] = most
        site.every[at, counter, 2] = total
    if recording:
        site.clock[layout.RECORDED] += 1


@kernel
def visible(now, site):
    """Return the numbers of the first and last sample that count for a run started at ``now``.

    They are those of [now - window, now - lag) that can be read by then.
    """
    interval = site.clock[layout.INTERVAL_S]
    first = max((now - WINDOW_S + interval - 1) // interval, 1 - site.clock[layout.WARM_S] // interval)
    last = (now - 1 - site.clock[layout.LAG_S]) // interval
    return first, min(last, site.clock[layout.SAMPLES])


@apart
def over_window(now, counter, needed, own, rates, at, site):
    """Write min, max and mean rate of a counter over the window to ``rates[at:at + 3]``.

    The window ends at ``now``; nodes are the ``needed`` chosen ones (``own``) or all. NaN where there is no sample.
    """
    first, last = visible(now, site)
    least, most, total = np.inf, -np.inf, 0.0
    nodes = needed if own else len(site.owner)
    for number in range(first, last + 1):
        row = number % site.ring.shape[0]
        if own:
            for i in range(needed):
                value = site.ring[row, counter, site.chosen[i]]
                least = min(least, value)
                most = max(most, value)
                total += value
        else:
            least = min(least, site.every[row, counter, 0])
            most = max(most, site.every[row, counter, 1])
            total += site.every[row, counter, 2]
    samples = nodes * max(last - first + 1, 0)
    rates[at] = least if samples > 0 else np.nan
    rates[at + 1] = most if samples > 0 else np.nan
    rates[at + 2] = total / samples if samples > 0 else np.nan


@kernel
def newest(now, counter, site):
    """Return the mean over all nodes of a counter's newest sample that can be read ``now``.

    NaN where there is none in the window.
    """
    first, last = visible(now, site)
    if last < first:
        return np.nan
    return site.every[last % site.ring.shape[0], counter, 2] / len(site.owner)
