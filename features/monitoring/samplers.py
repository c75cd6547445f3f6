"""LDMS samplers: their metrics, which of them only grow, and the names of feature columns.

A counter table holds one sampler: ``time_s`` float64 (Unix seconds, to the microsecond), ``node`` (text) and one
float64 column per metric, null where a sample gives no value. The three samplers of Nichols et al. (table I) are listed
with their metrics. ``sysclassib`` and ``lustre2_client`` follow the names of InfiniBand port counters and of Lustre's
llite statistics. The schema of ``opa_info`` is not published: the 28 fields of an Omni-Path port's status and six of
its virtual lane 0 stand for the paper's 34.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from features.errors import InputError

_INFINIBAND = """
    port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets port_xmit_wait port_xmit_discards unicast_xmit_packets unicast_rcv_packets
    multicast_xmit_packets multicast_rcv_packets symbol_error link_error_recovery link_downed port_rcv_errors port_rcv_remote_physical_errors
    port_rcv_switch_relay_errors port_xmit_constraint_errors port_rcv_constraint_errors local_link_integrity_errors excessive_buffer_overrun_errors
    VL15_dropped qp1_dropped
"""
_OMNI_PATH = """
    xmit_data rcv_data xmit_pkts rcv_pkts multicast_xmit_pkts multicast_rcv_pkts xmit_wait sw_port_congestion rcv_fecn rcv_becn xmit_time_cong
    xmit_wasted_bw xmit_wait_data rcv_bubble mark_fecn rcv_constraint_errors rcv_switch_relay_errors xmit_discards xmit_constraint_errors
    rcv_remote_physical_errors local_link_integrity_errors rcv_errors excessive_buffer_overruns fm_config_errors link_error_recovery link_downed
    uncorrectable_errors link_quality_indicator vl0_xmit_data vl0_rcv_data vl0_xmit_pkts vl0_rcv_pkts vl0_xmit_wait vl0_congestion
"""
_LUSTRE = """
    dirty_pages_hits dirty_pages_misses read_bytes write_bytes brw_read brw_write osc_read osc_write ioctl open close mmap seek fsync readdir setattr
    truncate flock getattr create link unlink symlink mkdir rmdir mknod rename statfs alloc_inode setxattr getxattr listxattr removexattr
    inode_permission
"""


@dataclass(frozen=True)
class Sampler:
    """A sampler's metrics in order, and its gauges; all other metrics are cumulative.

    A gauge is used as read, a cumulative metric as a rate.
    """

    name: str
    metrics: tuple[str, ...]
    gauges: frozenset[str] = frozenset()


SAMPLERS = {
    sampler.name: sampler
    for sampler in (
        Sampler("sysclassib", tuple(_INFINIBAND.split())),
        Sampler("opa_info", tuple(_OMNI_PATH.split()), frozenset({"link_quality_indicator"})),
        Sampler("lustre2_client", tuple(_LUSTRE.split())),
    )
}
"""The samplers of Nichols et al.: 22, 34 and 34 metrics."""

_GAUGES = {
    **{name: "|".join(map(re.escape, sampler.gauges)) for name, sampler in SAMPLERS.items()},
    "meminfo": ".*",
    "vmstat": r"nr_(?!dirtied$|written$|throttled_written$|vmscan_|foll_pin_|tlb_).*",  # the excluded ones count events since boot
    "procstat": "procs_running|procs_blocked",
    "cray_aries_r": r"current_freemem|nr_dirty|nr_writeback|loadavg_.*|power.*",
    "metric_set_nic": "",
}
"""A sampler's gauges, as a regular expression for the whole name; all other metrics are cumulative."""


def sampler_of(name: str, metrics: Iterable[str]) -> Sampler:
    """Return a site's sampler with its metrics in order and its documented gauges.

    Gauges are the metrics that Linux, LDMS and the vendors document as such. InputError for an unknown sampler, because
    values never decide.
    """
    metrics = tuple(metrics)
    if name not in _GAUGES:
        raise InputError(f"unknown sampler {name!r}; known: {' '.join(sorted(_GAUGES))}")
    return Sampler(name, metrics, frozenset(metric for metric in metrics if re.fullmatch(_GAUGES[name], metric)))


STATISTICS = ("min", "max", "mean")
WINDOW_S = 300
"""Seconds before a run's start over which counters are aggregated."""

PROBES = ("send_s", "recv_s", "allreduce_s")
"""Seconds a node waits in the calls of the two MPI probes (a ring of 100 MB ten times, an all-reduce of 100 MB five
times)."""
TYPES = ("compute", "network", "io")
"""The resource that an application uses most."""


def counter_features(samplers: tuple[str, ...] = tuple(SAMPLERS)) -> tuple[str, ...]:
    """Return columns of window features: ``<sampler>.<metric>.<statistic>``, 270 in the paper."""
    return tuple(
        f"{name}.{metric}.{statistic}" for name in samplers for metric in SAMPLERS[name].metrics for statistic in STATISTICS
    )


PROBE_FEATURES = tuple(f"probe.{name}.{statistic}" for name in PROBES for statistic in STATISTICS)
TYPE_FEATURES = tuple(f"type.{name}" for name in TYPES)
FEATURES = (*counter_features(), *PROBE_FEATURES, *TYPE_FEATURES)
"""The 282 columns of Nichols et al., in this order."""

NEWEST_FEATURES = tuple(f"{name}.{metric}.newest" for name in SAMPLERS for metric in SAMPLERS[name].metrics)
"""Mean over all nodes of each counter's newest sample: minutes ahead of a mean over the window."""
SITUATION_FEATURES = (
    "job.nodes",
    "job.leaves",
    "job.crossing",
    *(f"running.{name}" for name in TYPES),
    *(f"beside.{name}" for name in TYPES),
    "offered.io",
    "offered.network",
)
"""What a scheduler knows when a job starts.

``job``: number of nodes, number of their leaf switches, and the largest share of a node's partners under other leaf
switches. ``running``: the share of all nodes that run applications of a type; ``beside``: the same share of the nodes
under the job's leaf switches. ``offered``: GB/s that the running applications and the job usually read and write, and
send through the uplinks of the job's busiest leaf switch; the latter is 0 if the job is under one leaf switch.
"""
MORE_FEATURES = (*NEWEST_FEATURES, *SITUATION_FEATURES)
"""Columns beyond those of Nichols et al."""
_FILE_SYSTEM = ("dirty_pages_misses", "dirty_pages_hits", "read_bytes", "write_bytes", "open", "inode_permission")
DELAY_FEATURES = (
    "probe.allreduce_s.mean",
    "probe.allreduce_s.max",
    *(f"lustre2_client.{name}.{statistic}" for name in _FILE_SYSTEM for statistic in ("mean", "newest")),
    *SITUATION_FEATURES,
    *TYPE_FEATURES,
)
"""Inputs that predict how much longer a run will take: the network as the job would see it, the traffic and backlog of
the file system, and the running jobs. Chosen by meaning: with all columns, trees learn the hour from error counters,
and there are too few hours for that."""
