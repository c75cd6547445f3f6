"""A map over a Dask cluster: pieces in tasks of about a second, what they share sent once.

Tasks are handed to workers from here, two for each of their threads, so that a scheduler holds few of them at any time, however
many pieces there are. What was lost with a worker the scheduler does again by itself; a task that several workers died of is taken
apart, and its pieces are computed alone, until the one is found that they die of.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import cloudpickle

from features.errors import InputError, one_line
from pipelines.workers.tasks import Made, Refused, compute, shared, versions

if TYPE_CHECKING:
    from distributed import Client, Future

TASK_S = 1.0
"""Seconds that a task should take."""
TASKS_PER_S = 200
"""Max tasks a second, half of what a scheduler and this process were seen to manage: with more threads, tasks are longer."""
AHEAD = 2
"""Tasks that each thread of a worker has been given, the one it computes among them."""
_GROWTH = 4
"""A task has at most so many times as many pieces as the largest before it."""
_LAST = 8
"""The last tasks are shorter, so that all workers end together, but at least this part of the others."""
_LOOK_S = 1.0
"""Seconds between looks at which workers there are."""
_SAY_S = 30.0
"""Seconds between lines about waiting for workers."""

Say: TypeAlias = Callable[[str], object]
"""A callback for one line about the workers."""


class WorkersFailed(InputError):
    """Workers that cannot do the work."""


@dataclass
class _Pace:
    """How many pieces make a task of :data:`TASK_S` seconds, by those that were computed."""

    piece_s: float | None = None
    largest: int = 1

    def size(self, left: int, threads: int) -> int:
        """Return the pieces of the next task, with ``left`` to give out to ``threads``."""
        if self.piece_s is None:
            return 1
        wanted = int(min(max(TASK_S, threads / TASKS_PER_S) / max(self.piece_s, 1e-9), self.largest * _GROWTH))
        made = max(1, min(wanted, left, max(left // (AHEAD * threads), wanted // _LAST)))
        self.largest = max(self.largest, made)
        return made

    def seen(self, pieces: int, seconds: float) -> None:
        """Learn from a task."""
        each = seconds / pieces
        self.piece_s = each if self.piece_s is None else 0.7 * self.piece_s + 0.3 * each


class Cluster:
    """The workers of a connected ``client``; itself a :data:`sim.campaigns.maps.Map`.

    ``name`` is what messages call them. ``wait_s`` bounds how long no worker may be there, None: for ever, as a batch system may
    be busy. ``mend`` is called every few seconds, to replace workers that are lost.
    """

    def __init__(
        self, client: Client, name: str, say: Say, wait_s: float | None = None, mend: Callable[[], object] = lambda: None
    ) -> None:
        self.client, self.name, self.say, self.wait_s, self.mend = client, name, say, wait_s, mend
        self.threads: dict[str, int] = {}
        self._looked = self._told = -_SAY_S
        self._seen: set[str] = set()
        self._since, self._lost = time.monotonic(), 0

    def __call__(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of ``function`` for ``pieces``, in order of completion.

        Raises what the function raises, after what was done before it; InputError for a cluster that is lost, a worker of other
        versions, and a piece that workers die of.
        """
        return _Work(self, function, pieces).results()

    def look(self) -> None:
        """Learn which workers there are, once in a while.

        Raises InputError where the scheduler is gone, or no worker came in ``wait_s`` seconds.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_S and self.threads and self.client.status == "running":
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
        if now - max(self._told, self._since) > _SAY_S:
            self._told = now
            self.say(f"{self.name}: waiting for workers")

    def gone(self) -> WorkersFailed:
        """Return the error for a scheduler that is lost."""
        return WorkersFailed(f"{self.name}: the scheduler is gone; what is done is kept, and the same command goes on from there")


class _Task(NamedTuple):
    """A task that was given to ``worker``; ``alone``: while no other was."""

    worker: str
    pieces: list[Any]
    alone: bool


class _Work:
    """One call of the map: ``waiting`` pieces, tasks ``given`` out, and ``suspects``, which workers may have died of."""

    def __init__(self, on: Cluster, function: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        self.on, self.waiting = on, deque(pieces)
        self.given: dict[Future, _Task] = {}
        self.suspects: deque[Any] = deque()
        self.ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self.pace = _Pace()
        self.content = _pickled(function)
        self.digest = hashlib.sha256(self.content).hexdigest()[:16]
        self.keys = (f"queuecast-{self.digest}-{os.urandom(4).hex()}-{number}" for number in itertools.count())
        self.sent: Future | None = None

    def results(self) -> Iterator[Any]:
        """Yield results as tasks end; whatever ends this cancels what is outstanding."""
        from distributed.client import ClosedClientError

        try:
            while self.waiting or self.suspects or self.given:
                self.on.look()
                try:
                    self._give()
                except ClosedClientError as error:
                    raise self.on.gone() from error
                yield from self._taken()
        finally:
            if self.on.client.status == "running":
                self.on.client.cancel(list(self.given), force=True)

    def _give(self) -> None:
        """Hand out tasks to workers that have fewer than they may have; suspects alone."""
        held = dict.fromkeys(self.on.threads, 0)
        if self.suspects or not held:
            if held and not self.given:
                self._submit([self.suspects.popleft()], next(iter(held)), alone=True)
            return
        for task in self.given.values():
            if task.worker in held:
                held[task.worker] += 1
        threads = sum(self.on.threads.values())
        for _ in range(AHEAD * threads - len(self.given)):
            worker = min(held, key=lambda each: held[each] / self.on.threads[each])
            if not self.waiting:
                return
            size = self.pace.size(len(self.waiting), threads)
            self._submit([self.waiting.popleft() for _ in range(size)], worker)
            held[worker] += 1

    def _submit(self, pieces: list[Any], worker: str, alone: bool = False) -> None:
        import dask

        client = self.on.client
        if self.sent is None or self.sent.status not in ("pending", "finished"):
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
                self.sent = client.submit(shared, self.content, key=next(self.keys), pure=False)
        asked = (self.sent, self.digest, versions(), cloudpickle.dumps(pieces))
        future = client.submit(compute, *asked, key=next(self.keys), pure=False, workers=[worker], allow_other_workers=True)
        self.given[future] = _Task(worker, pieces, alone)
        future.add_done_callback(self.ended.put)

    def _taken(self) -> Iterator[Any]:
        """Wait for tasks to end; yield their results."""
        ended = []
        try:
            ended.append(self.ended.get(timeout=_LOOK_S))
            while True:
                ended.append(self.ended.get_nowait())
        except queue.Empty:
            ended = ended or [future for future in self.given if future.status != "pending"]
        made = self._gathered([future for future in ended if future.status == "finished"])
        for future in ended:
            if (task := self.given.pop(future, None)) is None:
                continue
            if future in made:
                yield from self._unpacked(made[future])
            elif future.status == "error":
                self._failed(future.exception(), task)
            else:  # lost with the connection to the scheduler
                self.waiting.extend(task.pieces)

    def _gathered(self, futures: list[Future]) -> dict[Future, bytes]:
        """Return the results of finished tasks, without those that failed since."""
        try:
            return dict(zip(futures, self.on.client.gather(futures), strict=True)) if futures else {}
        except Exception:
            found = {}
            for future in futures:
                with suppress(Exception):  # it tells by itself what happened
                    found[future] = future.result()
            return found

    def _unpacked(self, content: bytes) -> Iterator[Any]:
        made: Made | Refused = cloudpickle.loads(content)
        if isinstance(made, Refused):
            raise WorkersFailed(f"{self.on.name}: a worker on {made.host} could make other tables: it has {made.differences}")
        if made.results and not made.first:
            self.pace.seen(len(made.results), made.seconds)
        yield from made.results
        if made.error is not None:
            raise made.error

    def _failed(self, error: BaseException | None, task: _Task) -> None:
        """Suspect the pieces of a task that workers died of, and of one that was alone its parts.

        Raises InputError for a part alone, and for any other failure.
        """
        from distributed.scheduler import KilledWorker

        parts = [part for piece in task.pieces for part in (_parts(piece) if task.alone else [piece])]
        if isinstance(error, KilledWorker) and (len(parts) > 1 or not task.alone):
            self.suspects.extend(parts)
        elif isinstance(error, KilledWorker):
            raise WorkersFailed(
                f"{_named(parts[0])}: each worker that computed it died; their logs say why, often too little memory"
            )
        else:
            raise WorkersFailed(
                one_line(f"{self.on.name}: cannot compute, perhaps without the same queuecast[server] there and here: {error}")
            ) from error


def _parts(piece: Any) -> list[Any]:
    """Return the parts of a group, each a group; anything else is one part."""
    return [(part,) for part in piece] if type(piece) is tuple else [piece]


def _named(piece: Any) -> str:
    return ", ".join(map(str, piece)) if type(piece) is tuple else str(piece)


def _pickled(function: Callable[[Any], Any]) -> bytes:
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise InputError(
            one_line(f"what simulations share cannot be sent to workers, such as a predictor that cannot be pickled: {error}")
        ) from error


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number} {what}{'s' * (number != 1)}"
