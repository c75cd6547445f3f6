"""The arrays of a simulated cluster: running jobs, their progress, sensor readings.

Seconds are those of the event loop. A running job has a slot; the noise job, which no scheduler starts, always has slot
0.
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
    CLOCKS,
) = range(18)
"""Slots of ``ClusterSite.clock``. Given are: seconds between changes of the background, between samples, until a sample
can be read, and of running before second 0; nodes a leaf switch; nodes of the noise job; the model that decides on
starts, and the lowest class that skips; how nodes are chosen; for how many seconds from its first skip on a job may be
skipped, 0 for any; seconds between two questions about a job. Kept are: slots in use; samples taken; those recorded
since the record was last emptied; the time up to which progress is accounted for; the number of start decisions, and of
skips."""

FIRST_FIT, BEST_FIT = range(2)
"""Ways to choose nodes: see :mod:`sim.cluster.contention`."""

NO_MODEL, MODEL, ORACLE, NOWCAST, COIN, OUTSIDE = range(6)
"""Models that decide on starts."""

UPLINK, CORE, STORAGE, NETWORK_GAIN, STORAGE_GAIN, POWER, NOISE_TRAFFIC, SENSOR_NOISE, PROBE_NOISE, CUTOFF, PHYSICS = range(11)
"""Slots of ``ClusterSite.physics``: GB/s of all uplinks of a leaf, of the core, of the file system; how much a full
link and a full file system stretch time, and with which power of the load; max GB/s that a node of the noise job sends;
relative noise of sensors and probes; the probability from which on the model, or the coin, skips."""

NETWORK, IO, TRAFFIC, READ, WRITE, METADATA, TYPE, LIMIT, PROFILE = range(9)
"""Columns of ``ClusterSite.variants``, of an application on a number of nodes: share of its time in communication and
in I/O; GB/s that a node sends, reads and writes on average; metadata operations per node and second; type; the runtime
in seconds beyond which a run counts as varied."""

REMAINING, FACTOR, FINISH, NETWORK_STRETCH, IO_STRETCH, NETWORK_SUM, IO_SUM, SLOT = range(8)
"""Columns of ``ClusterSite.slots``: seconds of work left; slowdown; end at this slowdown; stretch of communication and
of I/O; the sums of both over time."""

SENT, CROSSED, PORT_WAIT, READ_GB, WRITTEN, OPERATIONS, IO_WAIT, UPLINK_LOAD, CONGESTION, TIME, LATENTS = range(11)
"""Events at a node between two samples, summed over time: GB sent, those through uplinks, those held up by congestion;
GB read, written; metadata operations; seconds waited for the file system; load and stretch of its leaf's uplinks; the
time itself."""

ONE, GAIN_ONE, TWO, GAIN_TWO, BASE, GAUGE, SENSOR = range(7)
"""Columns of ``ClusterSite.sensors``: two events and the counts per unit of each, base counts a second, whether it is a
gauge."""

LOAD, STRETCH, LOAD_SUM, STRETCH_SUM, LEAF = range(5)
"""Columns of ``ClusterSite.leaves``: load of uplinks as a share, stretch of communication; sums of both since the last
sample."""

STORAGE_BACKGROUND, CORE_BACKGROUND, NOISE_BACKGROUND = range(3)
"""Columns of ``ClusterSite.background``: outside load of file system and core, as shares; activity of the noise job
(0..1)."""

EXACT, CONTENTION, START_NETWORK, START_IO, MEAN_NETWORK, MEAN_IO, PREDICTED, CUT, RUN = range(9)
"""Columns of ``ClusterSite.runs``: runtime in seconds, unrounded; the same over that of the job alone; stretch of
communication and I/O at its start, and on average; the model's last probability; whether it was cut at its request."""


class ClusterSite(NamedTuple):
    """Arrays of the cluster, float64 unless noted.

    ``chosen`` are the nodes that a job would get or got last. ``ring`` [samples, counters, nodes] are the last samples
    as rates, ``every`` [samples, counters, 3] their min, max and sum over all nodes; ``record`` are increments not yet
    reported; ``used`` are the sampled counters; ``wanted`` are the codes of the model's columns
    (:mod:`sim.cluster.start_models`).
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
    answered: np.ndarray  # int64 [jobs], second of the last answer if it was to skip, else -1
    slot_job: np.ndarray  # int64 [slots], -1 for none
    slot_sequence: np.ndarray  # int64 [slots]
    slot_nodes: np.ndarray  # int64 [slots]
    slot_of: np.ndarray  # int64 [jobs]
    places: np.ndarray  # int32 [nodes of all jobs], the nodes each job got, or empty
    first_place: np.ndarray  # int64 [jobs], where a job's nodes begin in ``places``
    spread: np.ndarray  # [slots, leaves], nodes
    slots: np.ndarray  # [slots, SLOT]
    sums: np.ndarray  # [slots, LATENTS], per node since the last sample
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
    readings: np.ndarray  # [3 + probe features], scratch
    out: np.ndarray  # [classes]
    model: Arrays
    runs: np.ndarray  # [jobs, RUN]
    feature_row: np.ndarray  # int64 [jobs], -1 for jobs without requested features
    features: np.ndarray  # [rows, own, all, probes and types]
    random: np.ndarray  # uint64 [1]


def no_model() -> Arrays:
    """Return an empty model with the arrays of any model."""
    table, numbers, codes = np.zeros((0, 0)), np.zeros(0), np.zeros(0, np.int64)
    return Arrays(0, numbers, numbers, codes, np.zeros((0, 3), np.int64), numbers, table)
