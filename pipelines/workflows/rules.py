"""The rule that a trace obeys, what the rule explains, and both as a site for ``whatif``."""

from __future__ import annotations

from dataclasses import dataclass

from features.jobs.cleaning import CleanTrace
from pipelines.ingest.slurm_jobs import SlurmJobs
from sim.rule_change import as_site
from sim.rules.explained import Explained, explained
from sim.rules.infer import Inferred, Progress, infer, recorded
from sim.rules.rule import Rule


@dataclass(frozen=True)
class Inference:
    """A rule inferred from the trace ``name``, and what it explains.

    ``recorded_s`` is the mean of the waits recorded after the first part.
    """

    name: str
    inferred: Inferred
    explained: Explained
    recorded_s: float


def find(trace: CleanTrace, progress: Progress) -> Inference:
    """Infer the rule of a trace from its first part, and compare it with known ones.

    The comparison is on all later jobs.
    """
    log = recorded(trace.jobs, trace.procs, trace.clock)
    inferred = infer(log, progress)
    return Inference(trace.name, inferred, explained(log, inferred.rule, progress), float(log.wait_s[log.first :].mean()))


def site_of(trace: CleanTrace, progress: Progress) -> tuple[Rule, SlurmJobs, int]:
    """Infer the rule of a trace; return it and the jobs as those of a site.

    The third value is the Unix second of the first submission after the jobs that it was inferred from.
    """
    log = recorded(trace.jobs, trace.procs, trace.clock)
    rule, table = as_site(infer(log, progress).rule, log, trace.name)
    return rule, SlurmJobs(table, trace.notes, trace.name), int(table["submit_s"].iloc[log.first])
