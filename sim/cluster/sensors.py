"""The 90 counters of Nichols et al.'s samplers as mixtures of events at a simulated node.

``sysclassib`` reads the node's own port, ``opa_info`` its switch, whose uplinks it shares with its neighbours, ``lustre2_client``
its file system client. Units: GB into words of 4 bytes, packets of 8 KiB, ticks of a port's clock of about 1 ns held up,
operations. Error counters count rare errors that are independent of load.
"""

from __future__ import annotations

import numpy as np

from features.monitoring.samplers import SAMPLERS
from sim.cluster.site import (
    BASE,
    CONGESTION,
    CROSSED,
    GAIN_ONE,
    GAIN_TWO,
    GAUGE,
    IO_WAIT,
    ONE,
    OPERATIONS,
    PORT_WAIT,
    READ_GB,
    SENSOR,
    SENT,
    TIME,
    TWO,
    UPLINK_LOAD,
    WRITTEN,
)

_WORDS, _PACKETS, _PAGES = 2.5e8, 1.2e5, 2.4e5
"""Number of these in a GB."""
_ERRORS = 2e-5
"""Mean errors a second."""

# counter: (event, counts per unit of it[, second event, counts per unit], base counts per second)
_SYSCLASSIB = {
    "port_xmit_data": (SENT, _WORDS, WRITTEN, _WORDS, 3e4),
    "port_rcv_data": (SENT, _WORDS, READ_GB, _WORDS, 3e4),
    "port_xmit_packets": (SENT, _PACKETS, WRITTEN, _PACKETS, 60),
    "port_rcv_packets": (SENT, _PACKETS, READ_GB, _PACKETS, 60),
    "port_xmit_wait": (PORT_WAIT, 9e7, SENT, 2e6, 20),
    "unicast_xmit_packets": (SENT, _PACKETS, WRITTEN, _PACKETS, 55),
    "unicast_rcv_packets": (SENT, _PACKETS, READ_GB, _PACKETS, 55),
    "multicast_xmit_packets": (TIME, 0.0, 0.2),
    "multicast_rcv_packets": (TIME, 0.0, 3.0),
}
_OPA_INFO = {
    "xmit_data": (SENT, _WORDS, READ_GB, _WORDS, 3e4),
    "rcv_data": (SENT, _WORDS, WRITTEN, _WORDS, 3e4),
    "xmit_pkts": (SENT, _PACKETS, READ_GB, _PACKETS, 60),
    "rcv_pkts": (SENT, _PACKETS, WRITTEN, _PACKETS, 60),
    "multicast_xmit_pkts": (TIME, 0.0, 3.0),
    "multicast_rcv_pkts": (TIME, 0.0, 0.2),
    "xmit_wait": (PORT_WAIT, 7e7, CONGESTION, 3e6, 10),
    "sw_port_congestion": (CONGESTION, 4e5, 0.5),
    "rcv_fecn": (PORT_WAIT, 3e4, CONGESTION, 4e3, 0.1),
    "rcv_becn": (PORT_WAIT, 2e4, 0.1),
    "xmit_time_cong": (CONGESTION, 2e6, PORT_WAIT, 1e6, 5),
    "xmit_wasted_bw": (CONGESTION, 1e5, 5),
    "xmit_wait_data": (PORT_WAIT, 2e7, 5),
    "rcv_bubble": (CROSSED, 4e5, SENT, 1e5, 50),
    "mark_fecn": (CONGESTION, 8e3, UPLINK_LOAD, 2e2, 0.1),
    "vl0_xmit_data": (SENT, _WORDS, READ_GB, _WORDS, 2.8e4),
    "vl0_rcv_data": (SENT, _WORDS, WRITTEN, _WORDS, 2.8e4),
    "vl0_xmit_pkts": (SENT, _PACKETS, READ_GB, _PACKETS, 50),
    "vl0_rcv_pkts": (SENT, _PACKETS, WRITTEN, _PACKETS, 50),
    "vl0_xmit_wait": (PORT_WAIT, 7e7, CONGESTION, 3e6, 10),
    "vl0_congestion": (CONGESTION, 4e5, 0.5),
}
_LUSTRE2_CLIENT = {
    "dirty_pages_hits": (WRITTEN, 0.8 * _PAGES, 2),
    "dirty_pages_misses": (WRITTEN, 0.2 * _PAGES, IO_WAIT, 3e4, 1),
    "read_bytes": (READ_GB, 1e9, 200),
    "write_bytes": (WRITTEN, 1e9, 400),
    "brw_read": (READ_GB, 30, 0.01),
    "brw_write": (WRITTEN, 30, 0.01),
    "osc_read": (READ_GB, 1e3, IO_WAIT, 40, 0.02),
    "osc_write": (WRITTEN, 1e3, IO_WAIT, 40, 0.02),
    "ioctl": (OPERATIONS, 0.02, 0.05),
    "open": (OPERATIONS, 0.25, 0.4),
    "close": (OPERATIONS, 0.25, 0.4),
    "mmap": (OPERATIONS, 0.01, 0.1),
    "seek": (OPERATIONS, 0.3, 0.2),
    "fsync": (WRITTEN, 2, 0.01),
    "readdir": (OPERATIONS, 0.03, 0.05),
    "setattr": (WRITTEN, 1, 0.01),
    "truncate": (WRITTEN, 0.5, 0.002),
    "flock": (TIME, 0.0, 0.01),
    "getattr": (OPERATIONS, 0.5, IO_WAIT, 25, 1.0),
    "create": (WRITTEN, 0.8, 0.005),
    "link": (TIME, 0.0, 0.0005),
    "unlink": (WRITTEN, 0.4, 0.003),
    "symlink": (TIME, 0.0, 0.0005),
    "mkdir": (TIME, 0.0, 0.001),
    "rmdir": (TIME, 0.0, 0.001),
    "mknod": (TIME, 0.0, 0.0002),
    "rename": (WRITTEN, 0.2, 0.002),
    "statfs": (TIME, 0.0, 0.02),
    "alloc_inode": (OPERATIONS, 0.05, 0.05),
    "setxattr": (WRITTEN, 0.3, 0.002),
    "getxattr": (OPERATIONS, 0.2, 0.3),
    "listxattr": (TIME, 0.0, 0.002),
    "removexattr": (TIME, 0.0, 0.0005),
    "inode_permission": (OPERATIONS, 1.5, IO_WAIT, 40, 3.0),
}
_KNOWN = {"sysclassib": _SYSCLASSIB, "opa_info": _OPA_INFO, "lustre2_client": _LUSTRE2_CLIENT}
_GAUGES = {"link_quality_indicator": 5.0}


def sensors() -> np.ndarray:
    """Return the sensors, float64 [90, SENSOR]; unlisted counters count errors.

    They are in the order of :data:`features.monitoring.samplers.SAMPLERS`.
    """
    rows = []
    for sampler in SAMPLERS.values():
        for metric in sampler.metrics:
            row = np.zeros(SENSOR)
            mixture = _KNOWN[sampler.name].get(metric, (TIME, 0.0, _ERRORS))
            row[[ONE, GAIN_ONE]] = mixture[:2]
            row[[TWO, GAIN_TWO]] = mixture[2:4] if len(mixture) > 3 else (TIME, 0.0)
            row[BASE] = mixture[-1]
            row[GAUGE] = _GAUGES.get(metric, 0.0)
            rows.append(row)
    return np.array(rows)
