"""Read the queue of a question as columns, without a look at each job on its own.

To check a thousand jobs by columns takes a fifth of the time that pydantic takes to check one job after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from features import limits
from pipelines.serving.questions import LONGEST_TEXT

SUBMITTED = "submit_time"
_NUMBERS = {"procs": (1, limits.PROCESSORS), "requested_s": (1, limits.SECONDS)}
_NULLABLE = {"waits_s": (0, limits.SECONDS), "running_s": (0, limits.SECONDS), "priority": (0, limits.SECONDS)}
"""Fields and their usual bounds; a priority may also lie beyond them."""
_TEXTS = ("user", "queue", "account", "reason")
_FIELDS = {*_TEXTS, *_NUMBERS, *_NULLABLE, SUBMITTED}
_WRITTEN, _COLONS = "2026-03-01 09:00:00", (13, 16)
_LAST_S = int(np.datetime64("2262-01-01", "s").astype(np.int64))


class QueueColumns(dict[str, list[Any]]):
    """The fields of a queue's jobs by name, in the order that was given.

    Values are those of :class:`pipelines.serving.starts.Queued`, but times of submission are seconds of the wall clock.
    """


def plain_columns(queue: list[Any]) -> QueueColumns | None:
    """Return the columns of a queue if all its fields are right.

    None: something in it may be wrong.
    """
    if {*map(type, queue)} - {dict}:
        return None
    named = set().union(*queue)
    if not named <= _FIELDS or not all("user" in job for job in queue):
        return None
    columns = QueueColumns({name: [job.get(name) for job in queue] for name in named})
    columns |= {name: [None] * len(queue) for name in _FIELDS - named}

    numbers = all(_within(columns[name], {int}, *bounds) for name, bounds in _NUMBERS.items())
    nullable = all(_within(_not_null(columns[name]), {int, float}, *bounds) for name, bounds in _NULLABLE.items())
    whole = all(float not in map(type, columns[name]) for name in ("waits_s", "running_s"))
    texts = all(_are_texts(_not_null(columns[name])) for name in _TEXTS)
    seconds = _seconds(_not_null(columns[SUBMITTED])) if numbers and nullable and whole and texts else None
    if seconds is None:
        return None
    in_turn = iter(seconds)
    columns[SUBMITTED] = [None if time is None else next(in_turn) for time in columns[SUBMITTED]]
    return columns


def _not_null(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _within(numbers: list[Any], kinds: Collection[type], least: int, most: int) -> bool:
    return {*map(type, numbers)} <= {*kinds} and all(least <= number <= most for number in numbers)


def _are_texts(values: list[Any]) -> bool:
    """Tell whether all are texts of allowed length, with no half of a character."""
    if {*map(type, values)} - {str}:
        return False
    return all(len(value) <= LONGEST_TEXT and (value.isascii() or value.isprintable()) for value in {*values})


def _seconds(times: list[Any]) -> list[int] | None:
    """Return wall clocks, all written like 2026-03-01 09:00:00, as seconds since 1970; None if one is written otherwise."""
    if not times:
        return []
    width = len(_WRITTEN)
    if {*map(type, times)} != {str} or {*map(len, times)} != {width}:
        return None
    written = "".join(times)
    if not written.isascii() or any({*written[place::width]} != {":"} for place in _COLONS):
        return None
    try:
        seconds = np.array(times, "datetime64[s]").astype(np.int64)
    except ValueError:
        return None
    return seconds.tolist() if ((seconds >= 0) & (seconds < _LAST_S)).all() else None
