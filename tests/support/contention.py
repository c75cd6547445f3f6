"""Generated control runs with the features of Nichols et al. and contention by hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from features.monitoring.samplers import FEATURES, SAMPLERS, STATISTICS

APPLICATIONS = ("AMG", "Kripke", "Laghos", "LBANN", "PENNANT", "sw4lite", "SWFFT")
_TYPE = (1, 0, 1, 2, 0, 0, 1)
_NETWORK = (0.30, 0.15, 0.35, 0.10, 0.08, 0.12, 0.45)
_IO = (0.02, 0.02, 0.03, 0.40, 0.02, 0.05, 0.02)
_SHOWS = {
    "sysclassib": ("port_xmit_wait", "port_xmit_data", "port_rcv_data"),
    "opa_info": ("xmit_wait", "sw_port_congestion", "rcv_fecn", "mark_fecn", "vl0_xmit_wait"),
    "lustre2_client": ("write_bytes", "read_bytes", "dirty_pages_misses", "osc_write"),
}
"""Counters that contention of the network (the first two samplers) or of the file system (the last) raises; all others are noise."""


class Runs(NamedTuple):
    """A row a run: its features, and the contention put in.

    The features are all alike, from its own nodes or from all nodes.
    """

    features: pd.DataFrame
    all_nodes: pd.DataFrame
    application: np.ndarray
    start_s: np.ndarray
    runtime_s: np.ndarray
    contention: pd.DataFrame
    truth: np.ndarray


def control_runs(count: int = 700, seed: int = 0, noise: float = 0.3) -> Runs:
    """Return ``count`` runs in time order with sensors' ``noise``.

    ``noise`` is the standard deviation of the logarithm; runs themselves vary by 1 %.
    """
    rng = np.random.default_rng(seed)
    application = rng.integers(0, len(APPLICATIONS), count)
    start = 1_600_000_000 + np.cumsum(rng.integers(600, 7200, count))
    network, disk = (np.where(rng.random(count) < 0.12, rng.uniform(0.3, 1.0, count), rng.uniform(0, 0.1, count)) for _ in range(2))
    excess = np.array(_NETWORK)[application] * network + np.array(_IO)[application] * disk
    runtime = (60.0 + 30.0 * application) * (1.0 + excess + rng.normal(0, 0.01, count))
    tables = [_features(rng, network, disk, application, noise * scale) for scale in (1.0, 1.5)]
    contention = pd.DataFrame({"excess": excess, "network": network, "io": disk})
    names = np.array(APPLICATIONS, dtype=object)[application]
    return Runs(tables[0], tables[1], names, start, runtime, contention, (excess > 0.05).astype(np.int64))


def _features(
    rng: np.random.Generator, network: np.ndarray, disk: np.ndarray, application: np.ndarray, noise: float
) -> pd.DataFrame:
    count, columns = len(network), {}
    for name, sampler in SAMPLERS.items():
        contention = disk if name == "lustre2_client" else network
        for metric in sampler.metrics:
            level = rng.uniform(0, 12) + (4.0 * contention if metric in _SHOWS[name] else 0.0)
            mean = np.exp(level + rng.normal(0, noise, count))
            spread = np.exp(np.abs(rng.normal(0, noise, (2, count))))
            for statistic, values in zip(STATISTICS, (mean / spread[0], mean * spread[1], mean), strict=True):
                columns[f"{name}.{metric}.{statistic}"] = values
    for probe in ("send_s", "recv_s", "allreduce_s"):
        mean = np.exp(0.5 * network + rng.normal(0, noise, count))
        for statistic, factor in zip(STATISTICS, (0.9, 1.2, 1.0), strict=True):
            columns[f"probe.{probe}.{statistic}"] = mean * factor
    for number, kind in enumerate(("compute", "network", "io")):
        columns[f"type.{kind}"] = (np.array(_TYPE)[application] == number).astype(np.float64)
    return pd.DataFrame(columns)[list(FEATURES)]


def labelled(runs: Runs, thresholds: tuple[float, ...] = (1.5,)) -> np.ndarray:
    """Return labels by every application's mean and standard deviation, int64 [runs].

    Over all of its runs.
    """
    z = np.empty(len(runs.runtime_s))
    for name in np.unique(runs.application):
        own = runs.application == name
        z[own] = (runs.runtime_s[own] - runs.runtime_s[own].mean()) / runs.runtime_s[own].std()
    return (z[:, None] > np.array(thresholds)).sum(axis=1)
