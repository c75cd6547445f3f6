"""Set the size of tasks by those that ended."""

from dataclasses import dataclass

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


@dataclass
class Pace:
    """What the tasks of one map that ended say of the next ones.

    A task should take :data:`TASK_S` seconds.
    """

    piece_s: float | None = None
    largest: int = 1

    def size(self, left: int, threads: int) -> int:
        """Return the pieces of the next task, with ``left`` to give out to ``threads``."""
        if self.piece_s is None:
            return 1
        wanted = int(min(max(TASK_S, threads / TASKS_PER_S) / max(self.piece_s, 1e-9), self.largest * _GROWTH))
        pieces = max(1, min(wanted, left, max(left // (AHEAD * threads), wanted // _LAST)))
        self.largest = max(self.largest, pieces)
        return pieces

    def seen(self, pieces: int, seconds: float, first: bool = False) -> None:
        """Learn from a task; sizes go by those that are not a worker's first."""
        if not first and pieces:
            each = seconds / pieces
            self.piece_s = each if self.piece_s is None else 0.7 * self.piece_s + 0.3 * each
