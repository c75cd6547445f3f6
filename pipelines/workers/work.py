"""Map a function over a Dask cluster, in tasks of about a second.

What all pieces share is sent once. Tasks are handed to workers from here, two for each of their threads, so that a scheduler holds few
of them at any time, however many pieces there are. What was lost with a worker the scheduler does again by itself; a task that several
workers died of is taken apart, and its pieces are computed alone, until the one is found that they die of. A task that is late
(:meth:`pipelines.workers.pace.Pace.due_s`) is given to another worker too, and the first answer counts. An answer that cannot be one
is asked for once more.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle

from features.errors import InputError, one_line, shown
from pipelines.workers.cluster import LOOK_S, Cluster, WorkersFailed
from pipelines.workers.pace import AHEAD, FIRST_S, PATIENCE, Pace
from pipelines.workers.tasks import Failed, Made, Refused, compute, shared, versions
from sim.campaigns.maps import Checked

if TYPE_CHECKING:
    from distributed import Future

ATTEMPTS = 3
"""Deadlines that a task may miss."""


@dataclass(eq=False)
class _Task:
    """Pieces given to ``worker``; other workers may have the same ``number``.

    ``alone``: while no other was given; ``began``, by the clock, when a thread was free for it; ``late``: it missed a deadline.
    """

    number: int
    worker: str
    pieces: list[Any]
    alone: bool = False
    began: float | None = None
    late: bool = False


class Work:
    """One call of the map.

    It has ``waiting`` pieces, tasks ``given`` out, and ``suspects``, which workers may have died of. ``open`` has the last future of
    each task without an answer, by number. A late task that another worker has answered stays given, as it still takes up its worker.
    """

    def __init__(self, on: Cluster, function: Callable[[Any], Any], pieces: Sequence[Any]) -> None:
        self.on, self.waiting = on, deque(pieces)
        self.checked = function if isinstance(function, Checked) else Checked(function, lambda piece, answer: "")
        self.given: dict[Future, _Task] = {}
        self.open: dict[int, Future] = {}
        self.suspects: deque[Any] = deque()
        self.ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self.pace, self.numbers = Pace(), itertools.count()
        self.content = _pickled(self.checked.function)
        self.digest = hashlib.sha256(self.content).hexdigest()[:16]
        self.keys = (f"queuecast-{self.digest}-{os.urandom(4).hex()}-{number}" for number in itertools.count())
        self.sent: Future | None = None
        self.sent_at, self.unsent = 0.0, 0
        self.answered: set[str] = set()
        self.missed: Counter[int] = Counter()
        self.wrong: set[int] = set()
        self._looked = 0.0

    def results(self) -> Iterator[Any]:
        """Yield results as tasks end; whatever ends this cancels what is outstanding."""
        from distributed.client import ClosedClientError

        if not self._able():  # what calls before were owed may have come since
            self.on.owed.clear()
        try:
            while self.waiting or self.suspects or self.open:
                self.on.look()
                try:
                    self._look()
                    self._give()
                except ClosedClientError as error:
                    raise self.on.gone() from error
                yield from self._taken()
        finally:
            if self.on.client.status == "running":
                self.on.client.cancel(list(self.given), force=True)

    def _able(self) -> dict[str, int]:
        """Return workers that may be given tasks, with their threads but for those of late tasks."""
        owed = self.on.owed
        return {worker: threads - owed[worker] for worker, threads in self.on.threads.items() if threads > owed[worker]}

    def _give(self) -> None:
        """Hand out tasks to workers that have fewer than they may have; suspects alone."""
        able = self._able()
        if self.suspects:
            if able and not self.open:
                self._submit(_Task(next(self.numbers), next(iter(able)), [self.suspects.popleft()], alone=True))
            return
        held, threads = Counter(task.worker for task in self.given.values() if not task.late), sum(able.values())
        for _ in range(AHEAD * threads - sum(held.values())):
            if not self.waiting:
                return
            worker = min(able, key=lambda each: held[each] / able[each])
            size = self.pace.size(len(self.waiting), threads)
            self._submit(_Task(next(self.numbers), worker, [self.waiting.popleft() for _ in range(size)]))
            held[worker] += 1

    def _submit(self, task: _Task) -> None:
        import dask

        client, able = self.on.client, self._able()
        if self.sent is None or self.sent.status not in ("pending", "finished"):
            where = {"workers": [*able], "allow_other_workers": True} if able and len(able) < len(self.on.threads) else {}
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
                self.sent_at = time.monotonic()
                self.sent = client.submit(shared, self.content, key=next(self.keys), pure=False, **where)
        asked = (self.sent, self.digest, versions(), cloudpickle.dumps(task.pieces))
        future = client.submit(compute, *asked, key=next(self.keys), pure=False, workers=[task.worker], allow_other_workers=True)
        self.given[future], self.open[task.number] = task, future
        future.add_done_callback(self.ended.put)

    def _look(self) -> None:
        """Find tasks that are late, once in a while."""
        now, free = time.monotonic(), Counter(self.on.threads)
        if now - self._looked < LOOK_S or not free:
            return
        self._looked = now
        for each in self.given.values():
            free[each.worker] -= 1
            if each.began is None and free[each.worker] >= 0:
                each.began = now
        due, stuck = [each for each in self.open.values() if self._due(each, now)], self.on.threads.keys() - self._able()
        unsent = self.sent is not None and self.sent.status == "pending"
        if not (due or stuck or unsent) or (where := self._where()) is None:
            return
        if self.sent is not None and unsent:
            if now - self.sent_at > FIRST_S * PATIENCE**self.unsent:
                self._send_anew(where.get(self.sent.key))
            return
        for future, task in self.given.items():
            if (worker := where.get(future.key, task.worker)) != task.worker:  # the scheduler moved it
                self.on.owed[task.worker] -= task.late
                task.worker, task.began, task.late = worker, None, False
        for worker in stuck:
            self._take_back(worker)
        for future in due:
            if future in self.given and future.status == "pending" and self.given[future].began is not None:
                self._late(self.given[future], now)

    def _due(self, future: Future, now: float) -> bool:
        """Tell whether a task is late, or its worker no longer there."""
        task = self.given[future]
        first = task.worker not in self.answered
        due_s = self.pace.due_s(first, self.missed[task.number])
        spare = task.late and self._other(task) is not None
        return task.worker not in self.on.threads or spare or (task.began is not None and now - task.began > due_s)

    def _where(self) -> dict[Any, str] | None:
        """Return the worker of each task that the scheduler has given out, by key; None while it does not answer."""
        try:
            processing = self.on.client.processing()
        except (OSError, ValueError):
            return None
        return {key: worker for worker, keys in processing.items() for key in keys}

    def _late(self, task: _Task, now: float) -> None:
        """Give a late task to another worker too.

        Raises InputError after :data:`ATTEMPTS`.
        """
        other = self._other(task)
        said = f"{self.on.name}: {_named(task.pieces)}"
        if task.late and other is not None:
            self.on.say(one_line(f"{said} is given to {other} too"))
        else:
            self.on.owed[task.worker] += not task.late
            task.late = True
            self.missed[task.number] += 1
            longest_s = max(self.pace.longest_s.values(), default=None)
            usual = "no task has ended yet" if longest_s is None else f"the longest task took {longest_s:.2g} s"
            said = f"{said}: worker {task.worker} has not answered for {now - (task.began or 0.0):.0f} s, where {usual}"
            if self.missed[task.number] >= ATTEMPTS:
                raise WorkersFailed(
                    one_line(
                        f"{said}; it was the last of {ATTEMPTS} attempts: what is done is kept; in threads, without --on, no time is set"
                    )
                )
            given = f"it is given to {other} too" if other else "there is no other worker to give it to"
            self.on.say(one_line(f"{said}; {given}"))
        if other is None:
            task.began = now
        else:
            self.sent = None  # the late worker may be the only one that has it
            self._submit(_Task(task.number, other, task.pieces, task.alone))

    def _other(self, task: _Task) -> str | None:
        """Return the worker with fewest tasks that has not been given this one; None where there is none."""
        held = Counter(each.worker for each in self.given.values())
        had = {each.worker for each in self.given.values() if each.number == task.number} | {task.worker}
        return min(self._able().keys() - had, key=lambda worker: (held[worker], worker), default=None)

    def _take_back(self, worker: str) -> None:
        """Let what ``worker`` has not begun wait again, also what the scheduler moved there; "" stands for all workers."""
        taken = [future for future, task in self.given.items() if not task.late and worker in ("", task.worker)]
        for future in taken:
            task = self.given.pop(future)
            if self.open.get(task.number) is future:
                del self.open[task.number]
                (self.suspects if task.alone else self.waiting).extendleft(reversed(task.pieces))
        self.on.client.cancel(taken)

    def _send_anew(self, worker: str | None) -> None:
        """Send what pieces share once more: no task can begin before ``worker`` has taken it."""
        self.unsent += 1
        at = f"worker {worker} has not" if worker else "no worker has"
        said = f"{self.on.name}: {at} taken what simulations share"
        if self.unsent >= ATTEMPTS:
            raise WorkersFailed(f"{said}, at the last of {ATTEMPTS} attempts: what is done is kept")
        self.on.say(f"{said}; it is sent to others")
        if worker:
            self.on.owed[worker] = self.on.threads.get(worker, 0)
        self._take_back("")
        self.sent = None

    def _taken(self) -> Iterator[Any]:
        """Wait for tasks to end; yield their results."""
        ended = []
        try:
            ended.append(self.ended.get(timeout=LOOK_S))
            while True:
                ended.append(self.ended.get_nowait())
        except queue.Empty:
            ended = ended or [future for future in self.given if future.status != "pending"]
        made = self._gathered([future for future in ended if future.status == "finished"])
        for future in ended:
            if (task := self.given.pop(future, None)) is None:
                continue
            self.on.owed[task.worker] -= task.late
            if task.number not in self.open:  # another worker answered before
                continue
            if future in made:
                yield from self._results(future, task, made[future])
            elif others := [each for each, twin in self.given.items() if twin.number == task.number]:
                self.open[task.number] = others[-1]
            else:
                del self.open[task.number]
                if future.status == "error":
                    self._failed(future.exception(), task)
                else:  # lost with the connection to the scheduler
                    self.waiting.extend(task.pieces)

    def _gathered(self, futures: list[Future]) -> dict[Future, Any]:
        """Return the results of finished tasks, without those that failed since."""
        try:
            return dict(zip(futures, self.on.client.gather(futures), strict=True)) if futures else {}
        except Exception:
            found = {}
            for future in futures:
                with suppress(Exception):  # it tells by itself what happened
                    found[future] = future.result()
            return found

    def _results(self, future: Future, task: _Task, content: Any) -> Iterator[Any]:
        made, wrong = self._read(content, task.pieces)
        if made is None:
            self._ask_again(future, task, wrong)
            return
        del self.open[task.number]
        self.answered.add(task.worker)
        self.pace.seen(len(made.results), made.seconds, made.first)
        yield from made.results
        if made.error is not None:
            raise made.error

    def _read(self, content: Any, pieces: list[Any]) -> tuple[Made | None, str]:
        """Return what a worker made of ``pieces``, or None and what is wrong with its answer.

        Raises InputError for one that could not compute.
        """
        try:
            made = cloudpickle.loads(content)
        except Exception as error:
            return None, f"{shown(content)}, which cannot be read ({type(error).__name__}: {error})"
        if isinstance(made, Refused):
            raise WorkersFailed(f"{self.on.name}: a worker on {made.host} could make other tables: it has {made.differences}")
        if isinstance(made, Failed):
            raise self._cannot(made.said) from RuntimeError(made.trace)
        if not isinstance(made, Made):
            return None, shown(made)
        if len(made.results) != len(pieces) if made.error is None else len(made.results) >= len(pieces):
            return None, f"{len(made.results)} results for {len(pieces)} pieces of work"
        wrong = (self.checked.wrong(piece, answer) for piece, answer in zip(pieces, made.results, strict=False))
        said = next(filter(None, wrong), "")
        return (None, said) if said else (made, "")

    def _ask_again(self, future: Future, task: _Task, wrong: str) -> None:
        """Give a task whose answer is ``wrong`` to another worker, if there is one; InputError the second time."""
        with suppress(OSError, ValueError):
            task.worker = next((at for held in self.on.client.who_has([future]).values() for at in held), task.worker)
        said = f"{self.on.name}: worker {task.worker} answered {wrong}"
        if task.number in self.wrong:
            raise WorkersFailed(one_line(f"{said}; so did the one before: what is done is kept"))
        self.wrong.add(task.number)
        other = self._other(task) or task.worker
        self.on.say(one_line(f"{said}; {other} is asked"))
        self._submit(_Task(task.number, other, task.pieces, task.alone))

    def _failed(self, error: BaseException | None, task: _Task) -> None:
        """Suspect the pieces of a task that workers died of, and of one that was alone its parts.

        Raises InputError for a part alone, and for any other failure.
        """
        from distributed.scheduler import KilledWorker

        parts = [part for piece in task.pieces for part in (_parts(piece) if task.alone else [piece])]
        if isinstance(error, KilledWorker) and (len(parts) > 1 or not task.alone):
            self.suspects.extend(parts)
        elif isinstance(error, KilledWorker):
            raise WorkersFailed(f"{_named(parts)}: each worker that computed it died; their logs say why, often too little memory")
        else:
            raise self._cannot(str(error)) from error

    def _cannot(self, said: str) -> WorkersFailed:
        return WorkersFailed(
            one_line(f"{self.on.name}: cannot compute, perhaps without the same queuecast[server] there and here: {said}")
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

        Raises what the function raises, after what was done before it; InputError for a cluster that is lost, a worker of other
        versions, and a piece that workers die of, or do not answer in time, or answer with what cannot be its result.
        """
        return Work(self, function, pieces).results()
