"""Map a function over a Dask cluster, in tasks of about a second.

The function that all pieces share is sent once. This process assigns two tasks to each thread of a worker, so that the scheduler
holds few of them at any time, however many pieces there are. The scheduler itself repeats tasks that were lost with a worker. If
several workers died during a task, its pieces are computed alone, until the piece that crashes workers is found.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import queue
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle

from features.errors import InputError, one_line
from pipelines.workers.cluster import LOOK_S, Cluster, WorkersFailed
from pipelines.workers.pace import AHEAD, Pace
from pipelines.workers.tasks import Failed, Refused, compute, shared, versions

if TYPE_CHECKING:
    from distributed import Future

_GATHER_S = 30.0
"""Max seconds to fetch the results of tasks; after that they count as lost, and the tasks are assigned again."""


@dataclass(eq=False)
class _Task:
    """Pieces assigned to ``worker``; ``alone`` if no other task was assigned meanwhile."""

    worker: str
    pieces: list[Any]
    alone: bool = False


class Work:
    """One call of the map.

    It has ``waiting`` pieces, assigned tasks ``given``, and ``suspects``: pieces that may have crashed workers.
    """

    def __init__(self, on: Cluster, function: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        self.on, self.waiting = on, deque(pieces)
        self.given: dict[Future, _Task] = {}
        self.suspects: deque[Any] = deque()
        self.ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self.pace = Pace()
        self.content = _pickled(function)
        self.digest = hashlib.sha256(self.content).hexdigest()[:16]
        self.keys = (f"queuecast-{self.digest}-{os.urandom(4).hex()}-{number}" for number in itertools.count())
        self.sent: Future | None = None

    def results(self) -> Iterator[Any]:
        """Yield results as tasks end; cancel outstanding tasks when the generator ends."""
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
        """Assign tasks to workers that have fewer than they may have; suspects alone."""
        able = self.on.threads
        if self.suspects:
            if able and not self.given:
                self._submit(_Task(next(iter(able)), [self.suspects.popleft()], alone=True))
            return
        held, threads = Counter(task.worker for task in self.given.values()), sum(able.values())
        for _ in range(AHEAD * threads - sum(held.values())):
            if not self.waiting:
                return
            worker = min(able, key=lambda each: held[each] / able[each])
            size = self.pace.size(len(self.waiting), threads)
            self._submit(_Task(worker, [self.waiting.popleft() for _ in range(size)]))
            held[worker] += 1

    def _submit(self, task: _Task) -> None:
        import dask

        client = self.on.client
        if self.sent is None or self.sent.status not in ("pending", "finished"):
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
                self.sent = client.submit(shared, self.content, key=next(self.keys), pure=False)
        asked = (self.sent, self.digest, versions(), cloudpickle.dumps(task.pieces))
        future = client.submit(compute, *asked, key=next(self.keys), pure=False, workers=[task.worker], allow_other_workers=True)
        self.given[future] = task
        future.add_done_callback(self.ended.put)

    def _taken(self) -> Iterator[Any]:
        """Wait for tasks to end; yield their results."""
        ended = []
        try:
            ended.append(self.ended.get(timeout=LOOK_S))
            while True:
                ended.append(self.ended.get_nowait())
        except queue.Empty:
            ended = ended or [future for future in self.given if future.status != "pending"]
        contents = self._gathered([future for future in ended if future.status == "finished"])
        for future in ended:
            if (task := self.given.pop(future, None)) is None:
                continue
            if future in contents:
                yield from self._results(contents[future])
            elif future.status == "error":
                self._failed(future.exception(), task)
            else:  # lost with a worker, or with the connection to the scheduler
                self.waiting.extend(task.pieces)

    def _gathered(self, futures: list[Future]) -> dict[Future, Any]:
        """Return the results of finished tasks, without those that failed or were lost since.

        A result lost with its worker would block until another worker, which :meth:`Cluster.look` may bring, has made it again.
        """

        async def gathered() -> list[Any]:
            return list(await self.on.client.gather(futures, asynchronous=True))

        try:
            return dict(zip(futures, self.on.client.sync(gathered, callback_timeout=_GATHER_S), strict=True)) if futures else {}
        except Exception:
            contents = {}
            for future in futures:
                with suppress(Exception):  # its status tells what happened
                    contents[future] = future.result(timeout=LOOK_S)
            return contents

    def _results(self, content: bytes) -> Iterator[Any]:
        """Yield the results of a task, then raise its error; WorkersFailed if it did not run."""
        reply = cloudpickle.loads(content)
        if isinstance(reply, Refused):
            raise WorkersFailed(f"{self.on.name}: a worker on {reply.host} could make other tables: it has {reply.differences}")
        if isinstance(reply, Failed):
            raise self._cannot(reply.words) from RuntimeError(reply.trace)
        self.pace.seen(len(reply.results), reply.seconds, reply.first)
        yield from reply.results
        if reply.error is not None:
            raise reply.error

    def _failed(self, error: BaseException | None, task: _Task) -> None:
        """Suspect the pieces of a task during which workers died, or its parts if it was alone.

        Raises WorkersFailed for a single part that was alone, and for any other failure.
        """
        from distributed.scheduler import KilledWorker

        parts = [part for piece in task.pieces for part in (_parts(piece) if task.alone else [piece])]
        if isinstance(error, KilledWorker) and (len(parts) > 1 or not task.alone):
            self.suspects.extend(parts)
        elif isinstance(error, KilledWorker):
            raise WorkersFailed(f"{_named(parts)}: each worker that computed it died; their logs say why, often too little memory")
        else:
            raise self._cannot(str(error)) from error

    def _cannot(self, words: str) -> WorkersFailed:
        return WorkersFailed(
            one_line(f"{self.on.name}: cannot compute, perhaps without the same queuecast[server] there and here: {words}")
        )


def _parts(piece: Any) -> list[Any]:
    """Return the parts of a group, each a group; anything else is one part."""
    return [(part,) for part in piece] if type(piece) is tuple else [piece]


def _named(pieces: list[Any]) -> str:
    """Return the first part of ``pieces`` in words, and how many more there are."""
    parts = [part for piece in pieces for part in (piece if type(piece) is tuple else [piece])]
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return f"{one_line(str(parts[0]), 160)}{more}"


def _pickled(function: Callable[[Any], Any]) -> bytes:
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise InputError(
            one_line(f"what simulations share cannot be sent to workers, such as a predictor that cannot be pickled: {error}")
        ) from error


class OnWorkers(Cluster):
    """A :data:`sim.campaigns.maps.Map` over the workers of a cluster."""

    def __call__(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of ``function`` for ``pieces``, in order of completion.

        Raises the function's error after the results that came before it. Raises InputError for a lost cluster, a worker of other
        versions, and a piece that crashes its workers.
        """
        return Work(self, function, pieces).results()
