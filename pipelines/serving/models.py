"""The models that a service has loaded, and how they follow the registry's aliases.

A new version is loaded and asked beside the one that answers, then put in its place by one assignment: a request takes the
reference once and keeps it. Where the registry does not answer, or names a version that does not load, the loaded one stays.
"""

from __future__ import annotations

import threading
import time
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np

from features.errors import InputError, one_line
from models.packed.runtime_predictor import EARLY, RuntimePredictor
from models.runtime.conditional import conditional
from pipelines.serving.questions import TEXTS, Questions, Unanswerable

AGAIN = 12
"""Polls after which a version that did not load is tried again."""
ROWS = 32
"""Jobs that are answered at a time, so that other requests come in between."""


class Registry(Protocol):
    """Where versions come from. Raises InputError, with one line, for whatever goes wrong."""

    def version(self, name: str, alias: str) -> str:
        """Return the number of the version that ``alias`` points to, empty if there is none."""

    def load(self, name: str, number: str) -> RuntimePredictor:
        """Load a version."""


@dataclass(frozen=True)
class Loaded:
    """A version that answers."""

    name: str
    alias: str
    number: str
    predictor: RuntimePredictor

    def stale(self, now_s: float, after_s: float) -> bool | None:
        """Tell whether the snapshot is older than ``after_s``; None where it has no date."""
        taken = self.predictor.snapshot_unix_s
        return None if taken is None else now_s - taken > after_s

    def answer(self, asked: Questions, rows: slice, now_s: float) -> tuple[list[dict[str, Any]], Mapping[str, np.ndarray]]:
        """Answer the jobs ``rows`` as the registered model does.

        Beside that, what was asked beyond it: other quantiles, and given how long a job has run. Returns the answers, and the
        submissions as the model stores them.
        """
        predictor = self.predictor
        if predictor.snapshot_unix_s is None and None in asked.local_s[rows]:
            raise Unanswerable("submit_time is missing, and the model's trace has no dates: give its time", "submit_time")
        clock = timegm(datetime.fromtimestamp(now_s, ZoneInfo(predictor.timezone)).timetuple())
        submitted = predictor.asked(asked.given(rows, clock, predictor.earliest_local_s, EARLY))
        point, quantiles = predictor.distribution(submitted)
        levels, found = predictor.method.levels, []
        requested, elapsed = asked.numbers["requested_s"][rows], asked.numbers["elapsed_s"][rows]
        for row, seconds in enumerate(point.tolist()):
            told = quantiles[row].tolist()
            answer: dict[str, Any] = {"predicted_s": _whole(_given_that(elapsed[row], seconds, levels, told, requested[row]))}
            if asked.quantiles:
                more = conditional(levels, told, requested[row], elapsed[row], asked.quantiles) if levels else None
                answer["quantiles"] = more and {
                    repr(level): _whole(each) for level, each in zip(asked.quantiles, more, strict=True)
                }
            answer |= {"snapshot_age_s": int(submitted.age_s[row]), "user_known": bool(submitted.known[row])}
            found.append(answer)
        return found, submitted.given


def _given_that(elapsed: float, seconds: float, levels: Sequence[float], told: Sequence[float], requested: float) -> float:
    """Return a prediction for a job that has run for ``elapsed`` seconds.

    The one at its submission while it has not outlived that; then the median of what is left, or, without quantiles, the request.
    """
    if elapsed == 0 or elapsed < seconds:
        return seconds
    return conditional(levels, told, requested, elapsed, (0.5,))[0] if levels else float(requested)


def _whole(seconds: float) -> float | int:
    return int(seconds) if seconds == int(seconds) else seconds


@dataclass
class Served:
    """A model that is served at an alias: the version that answers, and what is wrong.

    ``problem`` is one line about why it does not follow the registry, ``since_s`` the Unix time since when; empty and 0 where it does.
    ``missing`` tells that the registry answers and knows no such model.
    """

    name: str
    alias: str
    now: Loaded | None = None
    problem: str = ""
    since_s: float = 0.0
    missing: bool = False
    _refused: str = ""
    _polls: int = 0

    def follow(self, registry: Registry, clock: Callable[[], float] = time.time) -> bool:
        """Load the version that the alias points to; tell whether one was loaded.

        None is where it answers already. A version that does not load is tried again every ``AGAIN`` calls.
        """
        number = ""
        try:
            number = registry.version(self.name, self.alias)
            self.missing = not number
            if self.missing:
                raise InputError(f"no registered model {self.name}@{self.alias}: queuecast run registers one")
            if self.now is not None and self.now.number == number:
                self._settle("", clock)
                return False
            self._polls += 1
            if number == self._refused and self._polls % AGAIN:
                return False
            loaded = Loaded(self.name, self.alias, number, registry.load(self.name, number))
            _check_answers(loaded, clock())
            self.now = loaded  # from here on it answers
        except Exception as error:  # whatever a registry or a damaged version raises, the loaded version stays
            self._refused = number
            self._settle(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}", clock)
            return False
        self._refused = ""
        self._settle("", clock)
        return True

    def _settle(self, problem: str, clock: Callable[[], float]) -> None:
        line = one_line(problem, 300)
        self.since_s = 0.0 if not line else self.since_s if self.problem else clock()
        self.problem = line


def _check_answers(loaded: Loaded, now_s: float) -> None:
    """Ask a new version once, which also prepares it; InputError where it does not answer sensibly."""
    request = 3600
    local = loaded.predictor.snapshot_unix_s
    asked = Questions(
        "",
        True,
        (0.5,),
        {name: [None] for name in TEXTS},
        {"procs": [1], "requested_s": [request], "elapsed_s": [0]},
        [int(now_s) if local is None else local],
        [None],
    )
    (answer,), _ = loaded.answer(asked, slice(0, 1), now_s)
    if not 1 <= answer["predicted_s"] <= request:
        raise InputError(
            f"version {loaded.number} of {loaded.name}: predicts {answer['predicted_s']} s for a request of {request} s"
        )


class Following(threading.Thread):
    """Polls the registry every ``every_s`` seconds until :meth:`stop`."""

    def __init__(self, models: Sequence[Served], registry: Registry, every_s: float, told: Callable[[Served, bool], None]) -> None:
        """``told(model, loaded)`` is called after each poll of a model that loaded, or whose problem is another."""
        super().__init__(name="registry", daemon=True)
        self._models, self._registry, self._every_s, self._told = models, registry, every_s, told
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            for each in self._models:
                before = each.problem
                loaded = each.follow(self._registry)
                if loaded or each.problem != before:
                    self._told(each, loaded)

    def stop(self) -> None:
        """Stop polling; a load under way ends with the process."""
        self._over.set()
