"""The initial arrays of a simulated cluster, and how its applications behave."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.samplers import PROBE_FEATURES, WINDOW_S
from sim.cluster.applications import application, type_code
from sim.cluster.presets import PLACEMENTS, SimulatedCluster
from sim.cluster.sensors import sensors
from sim.cluster.site import (
    BROUGHT_UP_TO,
    CLOCKS,
    CORE,
    INTERVAL_S,
    LAG_S,
    LATENTS,
    LEAF,
    NETWORK_GAIN,
    NODES_PER_LEAF,
    NOISE_NODES,
    NOISE_TRAFFIC,
    PHYSICS,
    PLACEMENT,
    POWER,
    PREDICTED,
    PROBE_NOISE,
    PROFILE,
    RUN,
    SAMPLES,
    SENSOR_NOISE,
    SLOT,
    SLOTS,
    STORAGE,
    STORAGE_GAIN,
    TICK_S,
    UPLINK,
    WARM_S,
    ClusterSite,
    no_model,
)
from sim.cluster.start_models import COUNTERS, LOOKS


def behaviours(
    names: np.ndarray, nodes: np.ndarray, scaling: str, limits: Mapping[tuple[str, int], float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return undisturbed seconds, profiles and the variant of each job.

    They are float64 [jobs], float64 [variants, PROFILE] and int64 [jobs].
    """
    kinds = list(zip(names.tolist(), nodes.tolist(), strict=True))
    variants = {kind: row for row, kind in enumerate(dict.fromkeys(kinds))}
    variant = np.array([variants[kind] for kind in kinds], np.int64)
    profiles = np.zeros((len(variants), PROFILE))
    seconds = np.zeros(len(variants))
    for row, (name, count) in enumerate(variants):
        program = application(name)
        behaviour = program.on(count, scaling)
        seconds[row] = behaviour.runtime_s
        profiles[row] = (*behaviour[1:], type_code(program.type), limits.get((name, count), np.inf))
    return seconds[variant], profiles, variant


LONGEST_S = 1000 * DAY_S
"""Max seconds of a simulated cluster."""


def horizon_s(cluster: SimulatedCluster, arrays: object, work: np.ndarray) -> int:
    """Return the seconds after which the background repeats.

    It is the last submission, three times the jobs' min time and a day. InputError beyond ``LONGEST_S``: memory grows with it.
    """
    submit, procs = arrays.submit, arrays.procs  # type: ignore[attr-defined]
    horizon = int(submit[-1] + 3 * (work * procs).sum() / cluster.procs) + DAY_S
    if horizon > LONGEST_S:
        raise InputError(f"the jobs take up to {horizon:,} s on this cluster, and a simulation lasts at most {LONGEST_S:,} s")
    return horizon


def _noise(cluster: SimulatedCluster, slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the slot of each node, the nodes of each slot in each leaf, and those of each slot: the noise job has slot 0."""
    leaves, per_leaf = cluster.leaves, cluster.nodes_per_leaf
    owner, spread, held = np.full(cluster.nodes, -1), np.zeros((slots, leaves)), np.zeros(slots, np.int64)
    if cluster.noise_nodes:
        beside = cluster.noise_nodes // cluster.noise_leaves
        for number in range(cluster.noise_leaves):
            leaf = number * leaves // cluster.noise_leaves
            owner[leaf * per_leaf : leaf * per_leaf + beside] = 0
            spread[0, leaf] = beside
        held[0] = cluster.noise_nodes
    return owner, spread, held


def as_site(
    cluster: SimulatedCluster,
    procs: np.ndarray,
    profiles: np.ndarray,
    variant: np.ndarray,
    work: np.ndarray,
    random: np.random.Generator,
    horizon: int,
) -> ClusterSite:
    """Return a cluster with only the noise job, ``warm_s`` before the first submission.

    Its random numbers do not depend on the ``horizon``: a longer simulation begins like a shorter one.
    """
    jobs, nodes, leaves = len(variant), cluster.nodes, cluster.leaves
    slots = 1 + cluster.procs // max(int(procs.min()), 1)
    ticks = (horizon + cluster.warm_s) // cluster.tick_s + 1
    clock, physics = np.zeros(CLOCKS, np.int64), np.zeros(PHYSICS)
    clock[[TICK_S, INTERVAL_S, LAG_S, WARM_S]] = cluster.tick_s, cluster.interval_s, cluster.lag_s, cluster.warm_s
    clock[[NODES_PER_LEAF, NOISE_NODES, SLOTS]] = cluster.nodes_per_leaf, cluster.noise_nodes, 1
    clock[PLACEMENT] = PLACEMENTS.index(cluster.placement)
    clock[[SAMPLES, BROUGHT_UP_TO]] = -cluster.warm_s // cluster.interval_s, -cluster.warm_s
    physics[[UPLINK, CORE, STORAGE]] = cluster.uplink, cluster.core, cluster.storage
    physics[[NETWORK_GAIN, STORAGE_GAIN, POWER]] = cluster.network_gain, cluster.storage_gain, cluster.power
    physics[[NOISE_TRAFFIC, SENSOR_NOISE, PROBE_NOISE]] = cluster.noise_traffic, cluster.sensor_noise, cluster.probe_noise
    levels = (cluster.storage_background, cluster.core_background, cluster.noise_background)
    *of_levels, sensor = random.spawn(len(levels) + 1)
    drawn = [level.drawn(ticks, cluster.tick_s, own) for level, own in zip(levels, of_levels, strict=True)]
    background = np.column_stack(drawn)
    owner, spread, held = _noise(cluster, slots)
    runs = np.zeros((jobs, RUN))
    runs[:, PREDICTED] = np.nan
    ring = (WINDOW_S + cluster.lag_s) // cluster.interval_s + 3
    return ClusterSite(
        clock=clock,
        physics=physics,
        variants=profiles,
        variant=variant,
        work=work,
        owner=owner,
        chosen=np.zeros(nodes, np.int64),
        free=np.zeros(leaves, np.int64),
        first_skip=np.full(jobs, -1),
        answered=np.full(jobs, -1),
        slot_job=np.full(slots, -1),
        slot_sequence=np.zeros(slots, np.int64),
        slot_nodes=held,
        slot_of=np.zeros(jobs, np.int64),
        places=np.zeros(0, np.int32),
        first_place=(np.cumsum(procs) - procs).astype(np.int64),
        spread=spread,
        slots=np.zeros((slots, SLOT)),
        sums=np.zeros((slots, LATENTS)),
        leaves=np.zeros((leaves, LEAF)),
        pending=np.zeros((LATENTS, nodes)),
        latents=np.zeros((LATENTS, nodes)),
        background=background,
        sensors=sensors(),
        used=np.zeros(0, np.int64),
        ring=np.zeros((ring, COUNTERS, nodes)),
        every=np.zeros((ring, COUNTERS, 3)),
        record=np.zeros((0, COUNTERS, nodes)),
        wanted=np.zeros(0, np.int64),
        x=np.zeros(0),
        readings=np.zeros(3 + len(PROBE_FEATURES)),
        out=np.zeros(2),
        model=no_model(),
        runs=runs,
        feature_row=np.full(jobs, -1),
        features=np.zeros((0, LOOKS)),
        random=sensor.integers(1, 2**63, 1).astype(np.uint64),
    )
