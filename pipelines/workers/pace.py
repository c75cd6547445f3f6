"""Set the size and the deadline of tasks by those that ended."""

from dataclasses import dataclass, field

TASK_S = 1.0
"""Seconds that a task should take."""
TASKS_PER_S = 200
"""Max tasks a second, half of what a scheduler and this process were seen to manage: with more threads, tasks are longer."""
AHEAD = 2
"""Tasks that each thread of a worker has been given, the one it computes among them."""
LEAST_S, FIRST_S = 60.0, 300.0
"""Min deadline of a task in seconds, and while none of its kind has ended."""
PATIENCE = 10.0
"""A deadline is so many times the longest task that ended, and that of each further attempt so many times the one before."""
_GROWTH = 4
"""A task has at most so many times as many pieces as the largest before it."""
_LAST = 8
"""The last tasks are shorter, so that all workers end together, but at least this part of the others."""


@dataclass
class Pace:
    """What the tasks of one map that ended say of the next ones.

    A task should take :data:`TASK_S` seconds. ``longest_s`` is the longest that ended; the first of each worker, True, and later ones, False, are apart.
    """

    piece_s: float | None = None
    largest: int = 1
    longest_s: dict[bool, float] = field(default_factory=dict)

    def size(self, left: int, threads: int) -> int:
        """Return the pieces of the next task, with ``left`` to give out to ``threads``."""
        if self.piece_s is None:
            return 1
        wanted = int(min(max(TASK_S, threads / TASKS_PER_S) / max(self.piece_s, 1e-9), self.largest * _GROWTH))
        made = max(1, min(wanted, left, max(left // (AHEAD * threads), wanted // _LAST)))
        self.largest = max(self.largest, made)
        return made

    def seen(self, pieces: int, seconds: float, first: bool = False) -> None:
        """Learn from a task; sizes go by those that are not a worker's first."""
        self.longest_s[first] = max(seconds, self.longest_s.get(first, 0.0))
        if not first and pieces:
            each = seconds / pieces
            self.piece_s = each if self.piece_s is None else 0.7 * self.piece_s + 0.3 * each

    def due_s(self, first: bool, attempts: int = 0) -> float:
        """Return the deadline of a task after so many attempts at it: seconds since it began.

        That is :data:`PATIENCE` times the longest of its kind, at least :data:`LEAST_S`, so it is longer on slow machines;
        :data:`FIRST_S` while none has ended. The ``first`` of each worker is a kind of its own: it loads, and perhaps compiles.
        """
        due_s = max(LEAST_S, PATIENCE * self.longest_s[first]) if first in self.longest_s else FIRST_S
        return float(due_s * PATIENCE**attempts)
