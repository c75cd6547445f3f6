"""Sizes of tasks, from the durations of finished ones."""

from dataclasses import dataclass

TASK_S = 1.0
"""Seconds that a task should take."""
TASKS_PER_S = 200
"""Max tasks per second, half of what a scheduler and this process were seen to manage: with more threads, tasks are longer."""
AHEAD = 2
"""Tasks assigned to each thread of a worker, including the one that it computes."""
_GROWTH = 4
"""A task has at most this many times as many pieces as the largest task before it."""
_LAST = 8
"""The last tasks are smaller, so that all workers end together, but not below the size of others divided by this."""


@dataclass
class Pace:
    """Sizes of the next tasks of one map, from its finished tasks.

    A task should take :data:`TASK_S` seconds.
    """

    piece_s: float | None = None
    largest: int = 1

    def size(self, left: int, threads: int) -> int:
        """Return the number of pieces of the next task; ``left`` remain for ``threads``."""
        if self.piece_s is None:
            return 1
        wanted = int(min(max(TASK_S, threads / TASKS_PER_S) / max(self.piece_s, 1e-9), self.largest * _GROWTH))
        pieces = max(1, min(wanted, left, max(left // (AHEAD * threads), wanted // _LAST)))
        self.largest = max(self.largest, pieces)
        return pieces

    def seen(self, pieces: int, seconds: float, first: bool = False) -> None:
        """Record a finished task; a worker's first one does not count, as it loads code."""
        if not first and pieces:
            each = seconds / pieces
            self.piece_s = each if self.piece_s is None else 0.7 * self.piece_s + 0.3 * each
