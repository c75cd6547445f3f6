"""The workers of a Dask cluster, and messages about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from features.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

LOOK_S = 1.0
"""Seconds between updates of the list of workers."""
_SAY_S = 30.0
"""Seconds between lines about waiting for workers."""

Say: TypeAlias = Callable[[str], object]
"""A callback for one line about the workers."""


class WorkersFailed(InputError):
    """Raised if workers cannot do the work."""


class Cluster:
    """The workers of a connected ``client``.

    :class:`pipelines.workers.work.OnWorkers` maps over them. Messages have their ``name``. ``wait_s`` is the max time without a
    worker, None for no limit, as a batch system may be busy. ``mend`` is called at each update, to replace lost workers.
    """

    def __init__(
        self, client: Client, name: str, say: Say, wait_s: float | None = None, mend: Callable[[], object] = lambda: None
    ) -> None:
        self.client, self.name, self.say, self.wait_s, self.mend = client, name, say, wait_s, mend
        self.threads: dict[str, int] = {}
        self._looked = self._reported_s = -_SAY_S
        self._seen: set[str] = set()
        self._since, self._lost = time.monotonic(), 0

    def look(self) -> None:
        """Update the list of workers, at most every :data:`LOOK_S` seconds while there are any.

        Raises WorkersFailed if the scheduler is gone, or no worker came in ``wait_s`` seconds.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_S and self.threads and self.client.status == "running":
            return
        self._looked = now
        self.mend()
        self.threads, answered = {}, self.client.status == "running"
        if answered:
            try:
                self.threads = dict(self.client.nthreads())
            except (OSError, ValueError):  # the connection is made again
                answered = False
        if self.client.status in ("closing", "closed"):
            raise self.gone()
        gone = self._seen - set(self.threads)
        if gone and answered:
            self._seen -= gone
            self._lost += len(gone)
            self.say(f"{self.name}: {counted(len(gone), 'worker')} lost, {len(self.threads)} there; lost tasks are done again")
        self._seen |= set(self.threads)
        if self.threads:
            self._since = now
            return
        if self.wait_s is not None and now - self._since > self.wait_s:
            there = f"has no worker left of {self._lost}, whose logs say why" if self._lost else "has no worker"
            raise WorkersFailed(f"{self.name}: {there}; none came in {self.wait_s:g} s") if answered else self.gone()
        if now - max(self._reported_s, self._since) > _SAY_S:
            self._reported_s = now
            self.say(f"{self.name}: waiting for workers")

    def gone(self) -> WorkersFailed:
        """Return the error for a scheduler that is lost."""
        return WorkersFailed(f"{self.name}: the scheduler is gone; what is done is kept, and the same command goes on from there")


def counted(number: int, what: str) -> str:
    """Return a number with its noun, such as ``2 workers``."""
    return f"{number} {what}{'s' * (number != 1)}"
