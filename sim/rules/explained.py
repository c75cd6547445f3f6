"""How much of a record a rule explains: waits, and decision by decision.

For a decision the rule is applied to the recorded state: the jobs that ran then run, with their planned ends, and those that
waited wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S
from sim.kernel.scratch import Scratch
from sim.machine.nodes import NO_LIMIT, Hours, Layout, Requests
from sim.rules.infer import Recorded, by_size, correlation, off, replayed
from sim.rules.rule import FAR, Rule
from sim.simulate import simulate

KNOWN = ("Strict", "EASY", "Conservative")
"""Rules for comparison, on all processors: FCFS, and two that backfill."""
MONTH_S = 30 * DAY_S
MOMENTS = 400
"""Number of times of recorded starts at which a rule is tested."""
SLACK_S = 60
"""A start or wait of at most this may be the time that starting takes, and is no decision."""
_FEWEST = 100


class Decisions(NamedTuple):
    """Jobs that started at the tested times, and jobs that waited on.

    For both also how many the rule would have treated the same.
    """

    starts: int
    started: int
    waits: int
    waited: int

    @property
    def explained(self) -> float:
        """Return the mean of the two shares; starting all jobs, or none, gives a half."""
        return (self.started / max(self.starts, 1) + self.waited / max(self.waits, 1)) / 2


@dataclass(frozen=True)
class _Moment:
    """A rule at second ``now_s``: the first ``running`` jobs of the table run, others wait."""

    rule: Rule
    now_s: int
    running: int
    procs: int
    name: str = "a recorded moment"

    def arrays_for(self, jobs: pd.DataFrame) -> tuple[Layout, Requests]:
        """Return the machine at that time; running jobs may hold more than the rule allows."""
        layout, requests = self.rule.arrays_for(jobs)
        runs = np.arange(len(jobs)) < self.running
        held = runs[:, None] & (requests.limit != NO_LIMIT)
        taken = np.zeros_like(layout.left)
        np.add.at(taken[0], requests.limit[held], requests.weight[held])
        hours = layout.hours if self.rule.scheduler == "Conservative" else self._gate(layout.hours, runs)
        left = np.maximum(layout.left, taken)
        return layout._replace(capacity=np.array([[self.procs]]), left=left, hours=hours), requests

    def _gate(self, hours: Hours, runs: np.ndarray) -> Hours:
        """Return hours that let no waiting job start before now."""
        latest = hours.latest if len(hours.latest) else np.array([FAR])
        of, kinds, past = hours.of if len(hours.of) else np.zeros(len(runs), np.int64), len(latest), hours.time <= self.now_s
        latest = latest.copy()
        for kind, until in zip(hours.kind[past], hours.until[past], strict=True):
            latest[kind] = until
        return Hours(
            np.concatenate([np.full(kinds, self.now_s), hours.time[~past]]),
            np.concatenate([np.arange(kinds), hours.kind[~past]]),
            np.concatenate([latest, hours.until[~past]]),
            np.where(runs, kinds, of),
            np.append(np.full(kinds, -FAR), FAR),
        )


def decisions(rule: Rule, log: Recorded, moments: int = MOMENTS, seed: int = 0) -> Decisions:
    """Test ``rule`` at ``moments`` of the later part.

    They are drawn from the starts of jobs that waited for over a minute. Conservative is tested as if all waiting jobs had been
    submitted then, in their order.
    """
    submit, start, wait = log.jobs["submit_s"].to_numpy(np.int64), log.start_s, log.wait_s
    held = np.flatnonzero((np.arange(len(start)) >= log.first) & (wait > SLACK_S))
    times = np.unique(start[held])
    chosen = np.sort(np.random.default_rng(seed).choice(times, min(moments, len(times)), replace=False))
    planned = start + log.jobs["requested_s"].to_numpy(np.int64)
    counts, scratch = np.zeros(4, np.int64), Scratch()
    for now in chosen.tolist():
        running = np.flatnonzero((start < now) & (log.end_s > now))
        waiting = np.flatnonzero((submit <= now) & (start >= now))
        rows = np.concatenate([running, waiting])
        runs = np.arange(len(rows)) < len(running)
        begins = min(int(submit[waiting].min()), now) - 1
        comes = submit[rows] if rule.scheduler != "Conservative" else np.full(len(rows), now)
        table = log.jobs.iloc[rows].assign(submit_s=np.where(runs, begins, comes))
        length = np.where(runs, np.maximum(planned[rows], now + 1) - begins, table["requested_s"].to_numpy(np.int64))
        table = table.assign(requested_s=length, runtime_s=length).reset_index(drop=True)
        procs = max(rule.procs, int(log.jobs["procs"].to_numpy(np.int64)[running].sum()))
        schedule = simulate(table, machine=_Moment(rule, now, len(running), procs), scheduler=rule.scheduler, scratch=scratch)
        lets = schedule.jobs["start_s"].to_numpy(np.int64)[~runs] == now
        starts, waits = start[waiting] == now, start[waiting] > now + SLACK_S
        counts += [starts.sum(), (starts & lets).sum(), waits.sum(), (waits & ~lets).sum()]
    return Decisions(*counts.tolist())


def out_of_hours(rule: Rule, log: Recorded) -> np.ndarray:
    """Tell which recorded starts the hours of ``rule`` forbid, bool [jobs].

    Many are forbidden if the hours are no longer those of the site.
    """
    hours, planned = rule.arrays_for(log.jobs)[0].hours, log.start_s + log.jobs["requested_s"].to_numpy(np.int64)
    forbidden = np.zeros(len(planned), bool)
    for kind in range(len(hours.latest)):
        mine, events = hours.of == kind, hours.kind == kind
        until = np.append(hours.until[events], FAR)  # the last one is for starts before all events
        forbidden[mine] = planned[mine] > until[np.searchsorted(hours.time[events], log.start_s[mine], "right") - 1]
    return forbidden


@dataclass(frozen=True)
class Explained:
    """What a rule explains of the later part, beside known ones.

    ``rules``: one row per rule, ``rule first correlation mean_wait_s off same starts waits decisions``: rank correlations in the
    first and the later part; ``same`` is the share of recorded seconds of waiting that the same job also waits in the replay;
    ``starts`` and ``waits`` are the shares of recorded ones that the rule would have decided the same, ``decisions`` their mean.
    ``sizes``: mean waits by processors; ``months``: all months of the log, ``month jobs out_of_hours`` and the correlations of
    each rule.
    """

    rules: pd.DataFrame
    sizes: pd.DataFrame
    months: pd.DataFrame


def explained(log: Recorded, rule: Rule, progress: Callable[[str, int, int], None] | None = None) -> Explained:
    """Replay the log under ``rule`` and known ones; compare the later part."""
    later, wait = slice(log.first, None), log.wait_s.astype(np.float64)
    jobs, rows, waits = log.jobs.iloc[later], [], {}
    asked = [*(Rule(log.procs, name, origin_s=rule.origin_s) for name in KNOWN), rule]
    for at, each in enumerate(asked):
        rule_waits_s = replayed(each, log.jobs)
        name = each.name if each is rule else each.scheduler.replace("Strict", "FCFS")
        waits[name], counts = rule_waits_s, decisions(each, log)
        rows.append(
            {
                "rule": name,
                "first": correlation(rule_waits_s[: log.first], wait[: log.first]),
                "correlation": correlation(rule_waits_s[later], wait[later]),
                "mean_wait_s": rule_waits_s[later].mean(),
                "off": off(jobs, rule_waits_s[later], wait[later]),
                "same": float(np.minimum(rule_waits_s[later], wait[later]).sum() / max(wait[later].sum(), 1)),
                "starts": counts.started / max(counts.starts, 1),
                "waits": counts.waited / max(counts.waits, 1),
                "decisions": counts.explained,
            }
        )
        if progress is not None:
            progress("rules", at + 1, len(asked))
    submit, forbidden = log.jobs["submit_s"].to_numpy(np.int64), out_of_hours(rule, log)
    month = (submit - submit[0]) // MONTH_S
    months = [
        {"month": int(each), "jobs": int((month == each).sum()), "out_of_hours": float(forbidden[month == each].mean())}
        | {name: correlation(rule_waits_s[month == each], wait[month == each]) for name, rule_waits_s in waits.items()}
        for each in np.unique(month)
        if (month == each).sum() >= _FEWEST
    ]
    sizes = by_size(jobs, wait[later], *(rule_waits_s[later] for rule_waits_s in waits.values()))
    sizes.columns = pd.Index(["jobs", "recorded", *waits])
    return Explained(pd.DataFrame(rows), sizes.reset_index(), pd.DataFrame(months))
