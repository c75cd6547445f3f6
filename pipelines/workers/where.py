"""Where independent simulations run: ``--on``, ``QUEUECAST_ON``.

``tcp://host:port`` names the scheduler of a running Dask cluster; ``slurm`` and other batch systems stand for a cluster of their
jobs, which exists while it is needed. The default is threads on this machine.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from features.errors import InputError, one_line
from models.runtime.options import named
from sim.campaigns.maps import Map, threads

if TYPE_CHECKING:
    from distributed import Client

    from pipelines.workers.cluster import Say
    from pipelines.workers.work import OnWorkers

VARIABLE = "QUEUECAST_ON"
BATCH = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
    "htcondor": "HTCondorCluster",
}
"""Batch systems, and the class of dask-jobqueue for each."""
_ATTEMPTS = 5
"""Max attempts to become a scheduler's client."""
_ANSWER_S = 30.0
"""Max seconds that a scheduler takes to answer one question."""
_SCHEDULER = re.compile(r"(tcp|tls|ws|wss|ucx)://.+")


def configured() -> str:
    """Return where simulations run by the site's settings; "" means threads here."""
    return os.environ.get(VARIABLE, "").strip()


@contextmanager
def mapped(on: str = "", workers: int | None = None, say: Say = lambda line: None) -> Iterator[Map]:
    """Yield the map of the workers that ``on`` names.

    "" names ``workers`` threads here. ``say`` gets messages about a cluster. Raises InputError for a scheduler that cannot be
    reached, an unknown batch system, options that it does not take, and missing packages.
    """
    if not on:
        yield threads(workers)
        return
    with _cluster(on, say) as cluster:
        yield cluster


def _cluster(on: str, say: Say) -> AbstractContextManager[OnWorkers]:
    if _SCHEDULER.fullmatch(on):
        _import("distributed")
        return _running(on, say)
    system, options = named(on)
    if system not in BATCH:
        raise InputError(f"cannot run on {on!r}: give tcp://host:port of a Dask scheduler, or one of {', '.join(BATCH)}")
    _import("distributed", "dask_jobqueue")
    from pipelines.workers.batch import batch_jobs

    return batch_jobs(system, BATCH[system], options, say)


def _import(*packages: str) -> None:
    interrupts = signal.getsignal(signal.SIGINT)
    for name in packages:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(f"running on workers needs the package {name}: pip install queuecast[server]") from error
    if signal.getsignal(signal.SIGINT) is not interrupts:  # dask-jobqueue replaces it, to exit silently
        signal.signal(signal.SIGINT, interrupts)
    for name in [each for each in logging.root.manager.loggerDict if each.split(".")[0] in ("distributed", "dask_jobqueue")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our own messages say what matters


@contextmanager
def _running(address: str, say: Say) -> Iterator[OnWorkers]:
    """Yield the workers of the scheduler at ``address``."""
    import dask

    from pipelines.storage import site
    from pipelines.workers.work import OnWorkers

    wait_s = site.wait_s()
    with dask.config.set({"distributed.comm.timeouts.connect": f"{min(wait_s, _ANSWER_S)} s"}):
        try:
            client = _connected(address, wait_s)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(one_line(f"{address}: no Dask scheduler could be reached in {wait_s:g} s: {error}")) from error
        with client:
            yield OnWorkers(client, address, say, wait_s)


def _connected(address: str, wait_s: float) -> Client:
    """Return a client; retry if a broadcast came together with the scheduler's first answer.

    The library asserts that the answer comes alone.
    """
    from distributed import Client

    for attempt in range(_ATTEMPTS):
        try:
            return Client(address, timeout=wait_s, set_as_default=False, name="queuecast")
        except AssertionError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
