"""Where independent simulations run: ``--on``, ``QUEUECAST_ON``.

"" stands for threads of this process, ``tcp://HOST:PORT`` for a running Dask cluster, ``slurm(jobs=N)`` for jobs that
dask-jobqueue submits and that end with the command. Dask does the tasks of a lost worker again, and sends what all
pieces share once.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from features.errors import InputError, masked, one_line
from models.runtime.options import named, whole
from sim.campaigns.maps import Map, threads

if TYPE_CHECKING:
    from dask_jobqueue import SLURMCluster
    from distributed import Client

VARIABLE = "QUEUECAST_ON"
JOBS = 4
"""Default number of Slurm jobs."""
WAIT_S = 60.0
"""Seconds to wait for a scheduler, and for a first worker of a running cluster."""
_RETRIES = 2
"""Times that Dask repeats a task that raised an error."""
_SCHEDULER = re.compile(r"(tcp|tls|ws|wss|ucx)://[^\s/?#]+(/[^\s?#]*)?")

Say: TypeAlias = Callable[[str], object]
"""A callback for one line about the workers."""


def configured() -> str:
    """Return where simulations run by the site's settings; "" means threads here."""
    return os.environ.get(VARIABLE, "").strip()


@contextmanager
def mapped(on: str = "", workers: int | None = None, say: Say = lambda line: None) -> Iterator[Map]:
    """Yield the map of the workers that ``on`` names.

    "" names ``workers`` threads here. ``say`` gets lines about a cluster. Raises InputError for a scheduler or a
    command of Slurm that cannot be reached, and for missing packages.
    """
    if not on:
        yield threads(workers)
        return
    scheduler = _SCHEDULER.fullmatch(on)
    system, options = ("", {}) if scheduler else named(on)
    if not scheduler and system != "slurm":
        raise InputError(f"cannot run on {masked(on)!r}: give tcp://HOST:PORT of a Dask scheduler, or slurm(jobs=N)")
    client_of = _imported()
    place = system or masked(on)
    with ExitStack() as stack:
        try:
            jobs = stack.enter_context(_slurm(options)) if system else None
            client = stack.enter_context(client_of(jobs or on, timeout=WAIT_S, set_as_default=False))
            if not client.nthreads():
                say(f"{place}: waiting for workers")
                client.wait_for_workers(1, timeout=None if jobs else WAIT_S)  # jobs may wait in Slurm's queue for long
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(one_line(f"{place}: there are no workers: {masked(str(error))}")) from error
        yield partial(_over, client, place)


def _imported() -> type[Client]:
    """Return Dask's class of clients."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("running on workers needs Dask: install Queuecast with its extra 'server'") from error
    logging.getLogger("distributed").setLevel(logging.ERROR)
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL)  # the error that it would log is raised here, too
    return Client


def _slurm(options: dict[str, str]) -> SLURMCluster:
    """Submit jobs; ``options`` are their number and dask-jobqueue's own.

    Connections are encrypted by certificates of this run, which the jobs read in a directory that nodes share.
    """
    import dask

    before = signal.getsignal(signal.SIGINT)
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise InputError("jobs of Slurm need dask-jobqueue: install Queuecast with its extra 'server'") from error
    signal.signal(signal.SIGINT, before)  # dask-jobqueue replaces it when it is imported

    jobs = whole("jobs", options.pop("jobs", str(JOBS)), minimum=1, maximum=100_000)
    keywords: dict[str, Any] = {name: int(text) if text.isdecimal() else text for name, text in options.items()}
    keywords.setdefault("shared_temp_directory", dask.config.get("jobqueue.slurm.shared-temp-directory") or "~")
    cluster = SLURMCluster(security=True, **keywords)

    async def submit() -> None:
        cluster.scale(jobs=jobs)
        await cluster

    try:
        cluster.sync(submit)  # what sbatch says against the jobs is raised here
    except BaseException:
        with suppress(AssertionError):  # Dask's own, about a job that sbatch refused; by then the others are cancelled
            cluster.close()
        raise
    return cluster


def _over(client: Client, place: str, function: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
    """Yield the results of ``function`` for ``pieces``, in order of completion: a :data:`sim.campaigns.maps.Map`."""
    from distributed import KilledWorker, as_completed

    try:
        # a task makes what is shared, so that Dask can make it again if all workers that hold it are lost
        shared = client.submit(_shared, function, pure=False)
        futures = client.map(_computed, list(pieces), function=shared, retries=_RETRIES, pure=False)
    except Exception as error:
        raise InputError(one_line(f"{place}: what simulations share cannot be sent to workers: {error}")) from error
    try:
        for future in as_completed(futures, loop=client.loop):
            yield future.result()
    except KilledWorker as error:
        raise InputError(f"{place}: each worker that computed {error.task} died; often memory is too small: see its log") from error
    except CancelledError as error:
        raise InputError(
            f"{place}: the scheduler stopped; finished simulations are kept, and the same command continues from there"
        ) from error


def _shared(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def _computed(piece: Any, function: Callable[[Any], Any]) -> Any:
    return function(piece)
