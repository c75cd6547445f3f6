"""Maps: how independent pieces of work are distributed, over threads or anything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeAlias

Map: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Applies a function to pieces of work, like the builtin; results may come in any order.

The function carries what all pieces share, such as the trace: it is picklable, and large. Pieces are small. So a map
over processes sends the function once to each and then only pieces, many at a time. A piece that is a plain tuple is a
group: its parts may be computed separately, each as a group of one.
"""


def threads(workers: int | None = None) -> Map:
    """Return a map over ``workers`` threads, by default one per core, in order of completion.

    An error cancels the pieces that have not begun. Only the kernel runs in parallel, so long simulations gain most.
    With more than one thread ``simulate_s`` includes waiting for the interpreter lock.
    """

    def run(function: Callable[[Any], Any], pieces: Sequence[Any]) -> Iterator[Any]:
        with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
            try:
                for future in as_completed([pool.submit(function, piece) for piece in pieces]):
                    yield future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return run
