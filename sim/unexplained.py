"""What replays of an inferred rule leave unexplained, and how that limits what they say.

The record is compared with replays of the rule like a candidate, over the same weeks and users. By as much as the record may lie
off the replays, on the scale of ratios, a change may do more or less than its replays say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.site_change import Changed
from sim.what_if import Effect, Measured, effect, shaken


class Unexplained(NamedTuple):
    """What a rule leaves unexplained of a record.

    ``share`` of the recorded waiting does not occur in the replays, job by job; ``metrics`` are the record's over the replays'.
    """

    share: float
    metrics: dict[str, Measured]

    def off(self, metric: str) -> tuple[float, float]:
        """Return how far the record lies off the replays, and how far its interval reaches.

        Both are logarithms of ratios.
        """
        of = self.metrics[metric]
        ends = np.array([1 + each for each in (of.relative, of.low, of.high) if each is not None])
        if not (ends > 0).all():
            return np.inf, np.inf
        off, *interval = np.log(ends)
        return abs(float(off)), float(np.abs(interval - off).max(initial=0))

    def record(self) -> dict[str, Any]:
        """Return both for JSON; ``record_over_replay`` is the ratio less 1."""
        ends = {name: (of.relative, of.low, of.high) for name, of in self.metrics.items()}
        finite = {name: [None if each is None or np.isnan(each) else each for each in of] for name, of in ends.items()}
        return {"unexplained": self.share, "record_over_replay": finite}


def unexplained(today: Changed, starts: np.ndarray, shake_s: int, seeds: Sequence[int], from_s: int) -> Unexplained:
    """Compare the record with replays of the rule, on the jobs submitted from ``from_s`` on.

    ``starts`` [replicates, jobs] are those of the replays, whose submissions are shaken.
    """
    submit, recorded = (today.jobs[name].to_numpy(np.int64) for name in ("submit_s", "start_s"))
    moved = np.stack([shaken(today.jobs, shake_s, seed)["submit_s"].to_numpy(np.int64) for seed in seeds])
    replayed, record = starts - moved + submit, np.tile(recorded, (len(seeds), 1))
    waits, recorded_waits_s = ((each - submit)[:, submit >= from_s] for each in (replayed, record))
    metrics = effect(today, today, replayed, record, 0, seeds, 1, from_s).metrics
    return Unexplained(1 - float(np.minimum(waits, recorded_waits_s).sum() / max(recorded_waits_s.sum(), 1)), metrics)


def bounded(of: Effect, left: Unexplained) -> Effect:
    """Return an effect whose intervals allow for what the rule does not explain.

    A change may be off by as much as today's replays, and both vary over weeks and users. If the interval then includes 0, the
    p-value is 1. No effect on these very jobs alone is sure.
    """
    return of._replace(metrics={name: _bounded(each, *left.off(name)) for name, each in of.metrics.items()})


def _bounded(of: Measured, off: float, varies: float) -> Measured:
    if of.low is None or of.high is None or of.low <= -1 or not np.isfinite(off + varies):
        return of._replace(low=None, high=None, p=None, p_here=None)
    centre, low, high = np.log1p([of.relative, of.low, of.high])
    low, high = np.expm1([centre - off - np.hypot(centre - low, varies), centre + off + np.hypot(high - centre, varies)])
    return of._replace(low=float(low), high=float(high), p=1.0 if low <= 0 <= high else of.p, p_here=None)
