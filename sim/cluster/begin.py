"""The initial arrays of a simulated cluster: nodes, applications and sensors.

The 90 counters of Nichols et al.'s samplers are mixtures of events at a simulated node. ``sysclassib`` reads the node's
own port, ``opa_info`` its switch, whose uplinks it shares with its neighbours, ``lustre2_client`` its file system
client. Units: GB into words of 4 bytes, packets of 8 KiB, ticks of a port's clock of about 1 ns held up, operations.
Error counters count rare errors that are independent of load.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.samplers import PROBE_FEATURES, SAMPLERS, WINDOW_S
from sim.cluster import layout
from sim.cluster.applications import application, type_code
from sim.cluster.layout import ClusterSite, no_model
from sim.cluster.presets import PLACEMENTS, SimulatedCluster
from sim.cluster.start_models import COUNTERS, LOOKS

_WORDS, _PACKETS, _PAGES = 2.5e8, 1.2e5, 2.4e5
"""Number of these in a GB."""
_ERRORS = 2e-5
"""Mean errors a second."""

# counter: (event, counts per unit of it[, second event, counts per unit], base counts per second)
_SYSCLASSIB = {
    "port_xmit_data": (layout.SENT, _WORDS, layout.WRITTEN, _WORDS, 3e4),
    "port_rcv_data": (layout.SENT, _WORDS, layout.READ_GB, _WORDS, 3e4),
    "port_xmit_packets": (layout.SENT, _PACKETS, layout.WRITTEN, _PACKETS, 60),
    "port_rcv_packets": (layout.SENT, _PACKETS, layout.READ_GB, _PACKETS, 60),
    "port_xmit_wait": (layout.PORT_WAIT, 9e7, layout.SENT, 2e6, 20),
    "unicast_xmit_packets": (layout.SENT, _PACKETS, layout.WRITTEN, _PACKETS, 55),
    "unicast_rcv_packets": (layout.SENT, _PACKETS, layout.READ_GB, _PACKETS, 55),
    "multicast_xmit_packets": (layout.TIME, 0.0, 0.2),
    "multicast_rcv_packets": (layout.TIME, 0.0, 3.0),
}
_OPA_INFO = {
    "xmit_data": (layout.SENT, _WORDS, layout.READ_GB, _WORDS, 3e4),
    "rcv_data": (layout.SENT, _WORDS, layout.WRITTEN, _WORDS, 3e4),
    "xmit_pkts": (layout.SENT, _PACKETS, layout.READ_GB, _PACKETS, 60),
    "rcv_pkts": (layout.SENT, _PACKETS, layout.WRITTEN, _PACKETS, 60),
    "multicast_xmit_pkts": (layout.TIME, 0.0, 3.0),
    "multicast_rcv_pkts": (layout.TIME, 0.0, 0.2),
    "xmit_wait": (layout.PORT_WAIT, 7e7, layout.CONGESTION, 3e6, 10),
    "sw_port_congestion": (layout.CONGESTION, 4e5, 0.5),
    "rcv_fecn": (layout.PORT_WAIT, 3e4, layout.CONGESTION, 4e3, 0.1),
    "rcv_becn": (layout.PORT_WAIT, 2e4, 0.1),
    "xmit_time_cong": (layout.CONGESTION, 2e6, layout.PORT_WAIT, 1e6, 5),
    "xmit_wasted_bw": (layout.CONGESTION, 1e5, 5),
    "xmit_wait_data": (layout.PORT_WAIT, 2e7, 5),
    "rcv_bubble": (layout.CROSSED, 4e5, layout.SENT, 1e5, 50),
    "mark_fecn": (layout.CONGESTION, 8e3, layout.UPLINK_LOAD, 2e2, 0.1),
    "vl0_xmit_data": (layout.SENT, _WORDS, layout.READ_GB, _WORDS, 2.8e4),
    "vl0_rcv_data": (layout.SENT, _WORDS, layout.WRITTEN, _WORDS, 2.8e4),
    "vl0_xmit_pkts": (layout.SENT, _PACKETS, layout.READ_GB, _PACKETS, 50),
    "vl0_rcv_pkts": (layout.SENT, _PACKETS, layout.WRITTEN, _PACKETS, 50),
    "vl0_xmit_wait": (layout.PORT_WAIT, 7e7, layout.CONGESTION, 3e6, 10),
    "vl0_congestion": (layout.CONGESTION, 4e5, 0.5),
}
_LUSTRE2_CLIENT = {
    "dirty_pages_hits": (layout.WRITTEN, 0.8 * _PAGES, 2),
    "dirty_pages_misses": (layout.WRITTEN, 0.2 * _PAGES, layout.IO_WAIT, 3e4, 1),
    "read_bytes": (layout.READ_GB, 1e9, 200),
    "write_bytes": (layout.WRITTEN, 1e9, 400),
    "brw_read": (layout.READ_GB, 30, 0.01),
    "brw_write": (layout.WRITTEN, 30, 0.01),
    "osc_read": (layout.READ_GB, 1e3, layout.IO_WAIT, 40, 0.02),
    "osc_write": (layout.WRITTEN, 1e3, layout.IO_WAIT, 40, 0.02),
    "ioctl": (layout.OPERATIONS, 0.02, 0.05),
    "open": (layout.OPERATIONS, 0.25, 0.4),
    "close": (layout.OPERATIONS, 0.25, 0.4),
    "mmap": (layout.OPERATIONS, 0.01, 0.1),
    "seek": (layout.OPERATIONS, 0.3, 0.2),
    "fsync": (layout.WRITTEN, 2, 0.01),
    "readdir": (layout.OPERATIONS, 0.03, 0.05),
    "setattr": (layout.WRITTEN, 1, 0.01),
    "truncate": (layout.WRITTEN, 0.5, 0.002),
    "flock": (layout.TIME, 0.0, 0.01),
    "getattr": (layout.OPERATIONS, 0.5, layout.IO_WAIT, 25, 1.0),
    "create": (layout.WRITTEN, 0.8, 0.005),
    "link": (layout.TIME, 0.0, 0.0005),
    "unlink": (layout.WRITTEN, 0.4, 0.003),
    "symlink": (layout.TIME, 0.0, 0.0005),
    "mkdir": (layout.TIME, 0.0, 0.001),
    "rmdir": (layout.TIME, 0.0, 0.001),
    "mknod": (layout.TIME, 0.0, 0.0002),
    "rename": (layout.WRITTEN, 0.2, 0.002),
    "statfs": (layout.TIME, 0.0, 0.02),
    "alloc_inode": (layout.OPERATIONS, 0.05, 0.05),
    "setxattr": (layout.WRITTEN, 0.3, 0.002),
    "getxattr": (layout.OPERATIONS, 0.2, 0.3),
    "listxattr": (layout.TIME, 0.0, 0.002),
    "removexattr": (layout.TIME, 0.0, 0.0005),
    "inode_permission": (layout.OPERATIONS, 1.5, layout.IO_WAIT, 40, 3.0),
}
_KNOWN = {"sysclassib": _SYSCLASSIB, "opa_info": _OPA_INFO, "lustre2_client": _LUSTRE2_CLIENT}
_GAUGES = {"link_quality_indicator": 5.0}


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
    clock, physics = np.zeros(layout.CLOCKS, np.int64), np.zeros(layout.PHYSICS)
    clock[[layout.TICK_S, layout.INTERVAL_S, layout.LAG_S, layout.WARM_S]] = (
        cluster.tick_s,
        cluster.interval_s,
        cluster.lag_s,
        cluster.warm_s,
    )
    clock[[layout.NODES_PER_LEAF, layout.NOISE_NODES, layout.SLOTS]] = cluster.nodes_per_leaf, cluster.noise_nodes, 1
    clock[layout.PLACEMENT] = PLACEMENTS.index(cluster.placement)
    clock[[layout.SAMPLES, layout.BROUGHT_UP_TO]] = -cluster.warm_s // cluster.interval_s, -cluster.warm_s
    physics[[layout.UPLINK, layout.CORE, layout.STORAGE]] = cluster.uplink, cluster.core, cluster.storage
    physics[[layout.NETWORK_GAIN, layout.STORAGE_GAIN, layout.POWER]] = cluster.network_gain, cluster.storage_gain, cluster.power
    physics[[layout.NOISE_TRAFFIC, layout.SENSOR_NOISE, layout.PROBE_NOISE]] = (
        cluster.noise_traffic,
        cluster.sensor_noise,
        cluster.probe_noise,
    )
    levels = (cluster.storage_background, cluster.core_background, cluster.noise_background)
    *of_levels, sensor = random.spawn(len(levels) + 1)
    drawn = [level.drawn(ticks, cluster.tick_s, own) for level, own in zip(levels, of_levels, strict=True)]
    background = np.column_stack(drawn)
    owner, spread, held = _noise(cluster, slots)
    runs = np.zeros((jobs, layout.RUN))
    runs[:, layout.PREDICTED] = np.nan
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
        slots=np.zeros((slots, layout.SLOT)),
        sums=np.zeros((slots, layout.LATENTS)),
        leaves=np.zeros((leaves, layout.LEAF)),
        pending=np.zeros((layout.LATENTS, nodes)),
        latents=np.zeros((layout.LATENTS, nodes)),
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


def sensors() -> np.ndarray:
    """Return the sensors, float64 [90, SENSOR]; unlisted counters count errors.

    They are in the order of :data:`features.monitoring.samplers.SAMPLERS`.
    """
    rows = []
    for sampler in SAMPLERS.values():
        for metric in sampler.metrics:
            row = np.zeros(layout.SENSOR)
            mixture = _KNOWN[sampler.name].get(metric, (layout.TIME, 0.0, _ERRORS))
            row[[layout.ONE, layout.GAIN_ONE]] = mixture[:2]
            row[[layout.TWO, layout.GAIN_TWO]] = mixture[2:4] if len(mixture) > 3 else (layout.TIME, 0.0)
            row[layout.BASE] = mixture[-1]
            row[layout.GAUGE] = _GAUGES.get(metric, 0.0)
            rows.append(row)
    return np.array(rows)


def behaviours(
    names: np.ndarray, nodes: np.ndarray, scaling: str, limits: Mapping[tuple[str, int], float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return undisturbed seconds, profiles and the variant of each job.

    They are float64 [jobs], float64 [variants, PROFILE] and int64 [jobs].
    """
    kinds = list(zip(names.tolist(), nodes.tolist(), strict=True))
    variants = {kind: row for row, kind in enumerate(dict.fromkeys(kinds))}
    variant = np.array([variants[kind] for kind in kinds], np.int64)
    profiles = np.zeros((len(variants), layout.PROFILE))
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

    It is the last submission, three times the jobs' min time and a day. InputError beyond ``LONGEST_S``: memory grows
    with it.
    """
    submit, procs = arrays.submit, arrays.procs  # type: ignore[attr-defined]
    horizon = int(submit[-1] + 3 * (work * procs).sum() / cluster.procs) + DAY_S
    if horizon > LONGEST_S:
        raise InputError(f"the jobs take up to {horizon:,} s on this cluster, and a simulation lasts at most {LONGEST_S:,} s")
    return horizon


def _noise(cluster: SimulatedCluster, slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the slot of each node, the nodes of each slot in each leaf, and those of each slot: the noise job has slot
    0."""
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
