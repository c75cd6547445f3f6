"""The arrays of a simulated cluster: running jobs, their progress, sensor readings.

Seconds are those of the event loop. A running job has a slot; the noise job, which no scheduler starts, always has slot 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.variability.compiled_classifiers import Arrays

(
    TICK_S,
    INTERVAL_S,
    LAG_S,
    WARM_S,
    NODES_PER_LEAF,
    NOISE_NODES,
    DECIDER,
    FIRST_CLASS,
    SLOTS,
    SAMPLES,
    RECORDED,
    BROUGHT_UP_TO,
    ASKED_TIMES,
    SKIPPED_TIMES,
    PLACEMENT,
    PATIENCE_S,
    EVERY_S,
    HARM,
    CLOCKS,
) = range(19)
"""Slots of ``Site.clock``. Given: seconds between changes of the background, between samples, until a sample can be read, and that
the cluster has been running before second 0; nodes a leaf switch; nodes of the noise job; the model that decides on starts, and from
which class on a prediction skips; how nodes are chosen; for how many seconds from its first skip on a job may be skipped, 0 for any,
and seconds between two questions about a job; whether what a start does to running jobs counts. Kept: slots in use, samples taken, of
which recorded since the record was last emptied; the time up to which progress is accounted for; the number of start decisions, and
of skips."""

FIRST_FIT, BEST_FIT = range(2)
"""Ways to choose nodes: see :mod:`sim.cluster.placement`."""

NO_MODEL, MODEL, ORACLE, NOWCAST, COIN, OUTSIDE = range(6)
"""Models that decide on starts."""

UPLINK, CORE, STORAGE, NETWORK_GAIN, STORAGE_GAIN, POWER, NOISE_TRAFFIC, SENSOR_NOISE, PROBE_NOISE, CUTOFF, PHYSICS = range(11)
"""Slots of ``Site.physics``: GB/s of all uplinks of a leaf, of the core, of the file system; how much a full link, a full file system stretches the
time spent in it, and with which power of the load; max GB/s a node of the noise job sends; relative noise of sensors and probes; the
probability from which on the model, or the coin, skips."""

NETWORK, IO, TRAFFIC, READ, WRITE, METADATA, TYPE, LIMIT, USUAL, PROFILE = range(10)
"""Columns of ``Site.variants``, of an application on so many nodes: share of its time in communication and in I/O; GB/s a node
sends, reads and writes on average; metadata operations a node and second; type; the runtime in seconds beyond which a run
counts as varied, and that of an undisturbed run."""

REMAINING, FACTOR, FINISH, NETWORK_STRETCH, IO_STRETCH, NETWORK_SUM, IO_SUM, SLOT = range(8)
"""Columns of ``Site.slots``: seconds of work left; slowdown; end at this slowdown; stretch of communication and of I/O, and the sums of these
over time."""

SENT, CROSSED, PORT_WAIT, READ_GB, WRITTEN, OPERATIONS, IO_WAIT, UPLINK_LOAD, CONGESTION, TIME, LATENTS = range(11)
"""Events at a node between two samples, all summed over time: GB sent, of these through uplinks, GB held up by congestion, GB read and written, metadata
operations, seconds waited for the file system, load and stretch of its leaf's uplinks, and the time itself."""

ONE, GAIN_ONE, TWO, GAIN_TWO, BASE, GAUGE, SENSOR = range(7)
"""Columns of ``Site.sensors``: two events and the counts per unit of each, base counts a second, whether it is a gauge."""

LOAD, STRETCH, LOAD_SUM, STRETCH_SUM, LEAF = range(5)
"""Columns of ``Site.leaves``: load of the uplinks as a share, stretch of communication, and both summed over time since the last sample."""

STORAGE_BACKGROUND, CORE_BACKGROUND, NOISE_BACKGROUND = range(3)
"""Columns of ``Site.background``: outside load of the file system and of the core, as shares, and activity of the noise job (0..1)."""

EXACT, CONTENTION, START_NETWORK, START_IO, MEAN_NETWORK, MEAN_IO, PREDICTED, ADDED, CUT, RUN = range(10)
"""Columns of ``Site.runs``: runtime in seconds, unrounded; that over what it would have been alone; stretch of communication and I/O as the job
started, and on average over its run; the model's last probability, and what the
start would add to those of running jobs; whether it was cut at its request."""


class Site(NamedTuple):
    """Arrays of the cluster, float64 but where said.

    ``chosen`` are the nodes that a job would get or got last; ``ring`` [samples, counters, nodes] the last samples as rates,
    ``every`` [samples, counters, 3] their min, max and sum over all nodes; ``record`` increments not yet reported; ``used`` the
    sampled counters; ``wanted`` the codes of the model's columns (:mod:`sim.cluster.start_models`).
    """

    clock: np.ndarray  # int64 [CLOCKS]
    physics: np.ndarray  # [PHYSICS]
    variants: np.ndarray  # [variants, PROFILE]
    variant: np.ndarray  # int64 [jobs]
    work: np.ndarray  # [jobs], seconds alone on the machine, its own noise included
    owner: np.ndarray  # int64 [nodes], slot or -1
    chosen: np.ndarray  # int64 [nodes]
    free: np.ndarray  # int64 [leaves], scratch: free nodes
    first_skip: np.ndarray  # int64 [jobs], second of the first skip, -1 for none
    left: np.ndarray  # [slots], scratch: seconds of work
    there: np.ndarray  # int64 [slots], scratch: jobs
    answered: np.ndarray  # int64 [jobs], second of the last answer, if that was to skip, else -1
    slot_job: np.ndarray  # int64 [slots], -1 for none
    slot_sequence: np.ndarray  # int64 [slots]
    slot_nodes: np.ndarray  # int64 [slots]
    slot_of: np.ndarray  # int64 [jobs]
    places: np.ndarray  # int32 [nodes of all jobs], the nodes each job got, or empty
    first_place: np.ndarray  # int64 [jobs], where a job's begin in them
    spread: np.ndarray  # [slots, leaves], nodes
    slots: np.ndarray  # [slots, SLOT]
    sums: np.ndarray  # [slots, LATENTS], a node's since the last sample
    leaves: np.ndarray  # [leaves, LEAF]
    pending: np.ndarray  # [LATENTS, nodes], of jobs that ended since the last sample
    latents: np.ndarray  # [LATENTS, nodes], scratch
    background: np.ndarray  # [ticks, 3]
    sensors: np.ndarray  # [counters, SENSOR]
    used: np.ndarray  # int64 [used counters]
    ring: np.ndarray
    every: np.ndarray
    record: np.ndarray  # [records, counters, nodes]
    wanted: np.ndarray  # int64 [columns]
    x: np.ndarray  # [columns]
    y: np.ndarray  # [columns], scratch
    readings: np.ndarray  # [3 + probe features], scratch
    out: np.ndarray  # [classes]
    model: Arrays
    runs: np.ndarray  # [jobs, RUN]
    feature_row: np.ndarray  # int64 [jobs], -1 for jobs without requested features
    features: np.ndarray  # [rows, own, all, probes and types]
    random: np.ndarray  # uint64 [1]


def no_model() -> Arrays:
    """Return an empty model in the form of any."""
    table, numbers, codes = np.zeros((0, 0)), np.zeros(0), np.zeros(0, np.int64)
    return Arrays(0, numbers, numbers, codes, np.zeros((0, 3), np.int64), numbers, table, table, codes, numbers, 0)
