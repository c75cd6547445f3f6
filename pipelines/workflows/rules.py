"""Which rule a trace obeys, and what that explains of it."""

from __future__ import annotations

from dataclasses import dataclass

from features.jobs.cleaning import CleanTrace
from sim.rules.explained import Explained, explained
from sim.rules.infer import Inferred, Progress, infer, recorded


@dataclass(frozen=True)
class Found:
    """A rule inferred from the trace ``name``, and what it explains.

    With the mean of the waits recorded after the first part.
    """

    name: str
    inferred: Inferred
    explained: Explained
    recorded_s: float


def find(trace: CleanTrace, progress: Progress) -> Found:
    """Infer the rule of a trace from its first part, and compare it with known ones.

    The comparison is on all that follows.
    """
    log = recorded(trace.jobs, trace.procs, trace.clock)
    inferred = infer(log, progress)
    return Found(trace.name, inferred, explained(log, inferred.rule, progress), float(log.wait_s[log.first :].mean()))
