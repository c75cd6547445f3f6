"""Infer the rule that a record obeys, from the first part of a log, by replays of it.

Closings, hours and queue limits are read from the recorded starts. Then each round tries every known change of one part of the
rule, and keeps the change whose replay comes nearest to the record: in the order of waits and in their means by size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from features.clock import DAY_S, WEEK_S, Clock, local_clock_s
from features.errors import InputError
from features.jobs.schema import OVERRUN, start_s
from sim.rules.rule import MONDAY_S, Limit, Rule, queue_of
from sim.simulate import simulate

FIRST = 0.6
"""The share of the submissions from which a rule is inferred."""
GAIN = 0.02
"""Min gain in nearness for another change of the rule, in the mean of the parts."""
PARTS = 3
"""Number of parts of the first part; a change must bring the replay nearer in each."""
OFF = 0.1
"""Cost, in rank correlation, of a factor of ten between mean waits by size."""
_STEP_S = 1800
_RARE = 0.1
"""Fewer than this share of the usual number of jobs planned to run at an hour, or of starts in it, count as none."""
_LEAST, _LEAST_DRAINED = 240, 120
"""Min jobs from which hours are read, and closings alone."""
_FEWEST = 50
"""Min starts from which a rule is inferred."""
_HELD_S = 600
_ROUNDS = 8
_COLUMNS = (("user",), ("user", "queue"), ("user", "procs"), ("user", "requested_s"))
_MOST: dict[str, tuple[float, ...]] = {"processors": (0.05, 0.1, 0.2, 0.4), "jobs": (1, 2, 4, 10)}
"""Limits to try: shares of the processors, and numbers of jobs."""
_ALGORITHMS = ("EASY", "List", "EASY-SPF")
_PER_REQUESTED = (-1, 0, 1, 4)
_PER_AREA = (-16, 0, 16)
"""Seconds of waiting that outweigh a requested second, for a job on no processor and, in addition, on all processors."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Recorded:
    """A cleaned log with its record.

    ``start_s``, ``end_s`` and ``wait_s`` int64 [jobs] are recorded. The first part has the ``first`` jobs; ``had_started`` tells
    which of these had started by its end.
    """

    jobs: pd.DataFrame
    procs: int
    clock: Clock
    start_s: np.ndarray
    end_s: np.ndarray
    first: int

    @property
    def wait_s(self) -> np.ndarray:
        """Return the recorded waits, int64 [jobs]."""
        return np.asarray(self.start_s - self.jobs["submit_s"].to_numpy(np.int64))

    @property
    def had_started(self) -> np.ndarray:
        """Tell which jobs of the first part had started by its last submission, bool [first]."""
        return np.asarray(self.start_s[: self.first] <= int(self.jobs["submit_s"].iloc[self.first - 1]))


@dataclass(frozen=True)
class Inferred:
    """A rule, and the changes that led to it.

    One row per change: ``what correlation off``, means over the parts of the first part.
    """

    rule: Rule
    steps: pd.DataFrame


def recorded(jobs: pd.DataFrame, procs: int, clock: Clock, first: float = FIRST) -> Recorded:
    """Return a log all of whose waits are known; InputError for any other, or a short one."""
    start = start_s(jobs)
    if start is None or not (jobs["wait_s"] > 0).any():
        raise InputError("the log states no waits: from what was recorded no rule can be inferred")
    end = start + jobs["runtime_s"].to_numpy(np.int64) + (jobs[OVERRUN].to_numpy(np.int64) if OVERRUN in jobs else 0)
    log = Recorded(jobs, procs, clock, start, end, max(int(first * len(jobs)), 1))
    if (started := int(log.had_started.sum())) < _FEWEST:
        raise InputError(f"{started} jobs had started when {first:.0%} were submitted: a rule is inferred from {_FEWEST} or more")
    return log


def replayed(rule: Rule, jobs: pd.DataFrame) -> np.ndarray:
    """Return the wait of each job under ``rule``, float64 [jobs]."""
    table = simulate(jobs, machine=rule, scheduler=rule.scheduler).jobs
    return (table["start_s"] - table["submit_s"]).to_numpy(np.float64)


def by_size(jobs: pd.DataFrame, *waits_s: np.ndarray) -> pd.DataFrame:
    """Return mean waits by processors, in powers of four.

    Columns are ``jobs`` and one for each of ``waits_s``.
    """
    size = 4 ** (np.log2(jobs["procs"].to_numpy(np.float64)) // 2).astype(np.int64)
    table = pd.DataFrame({"procs": size, "jobs": 1} | {f"wait_{place}": waits for place, waits in enumerate(waits_s)})
    return table.groupby("procs").agg({"jobs": "sum"} | {f"wait_{place}": "mean" for place in range(len(waits_s))})


def off(jobs: pd.DataFrame, waits_s: np.ndarray, recorded_s: np.ndarray) -> float:
    """Return the error of mean waits by size, in powers of ten, as the mean over jobs.

    A minute is added to both, so that minutes count and seconds do not.
    """
    table = by_size(jobs, waits_s, recorded_s)
    ratio = np.abs(np.log10((table["wait_0"] + 60) / (table["wait_1"] + 60)))
    return float(np.average(ratio, weights=table["jobs"]))


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's rank correlation, 0 if all values of either array are equal."""
    return 0.0 if np.ptp(one) == 0 or np.ptp(other) == 0 else float(spearmanr(one, other).statistic)


def infer(log: Recorded, progress: Progress | None = None, *, drains: bool = False, since: Rule | None = None) -> Inferred:
    """Return the known rule that the first part of ``log`` obeys best.

    With ``drains`` only closings, and backfilling between them. Changes start from ``since``, by default EASY on all processors.
    """
    jobs, has_started = log.jobs.iloc[: log.first], log.had_started
    wait = log.wait_s[: log.first]

    parts = np.array_split(np.flatnonzero(has_started), PARTS)

    def near(rule: Rule) -> np.ndarray:
        waits_s = replayed(rule, jobs)
        return np.array([(correlation(waits_s[of], wait[of]), off(jobs.iloc[of], waits_s[of], wait[of])) for of in parts])

    def gain(one: np.ndarray, other: np.ndarray) -> float:
        each = (one - other) @ (1, -OFF)
        return float(each.mean() if each.min() > 0 else -1)

    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), *log.clock) - jobs["submit_s"].to_numpy(np.int64)
    rule = since or Rule(log.procs, origin_s=int(local.min()))
    best = near(rule)
    steps, whole = (
        [("EASY on all processors" if since is None else "as before", *best.mean(axis=0))],
        seen(log, rule, _LEAST_DRAINED if drains else _LEAST),
    )
    for round_ in range(_ROUNDS):
        tried = [(what, each) for what, each in changes(rule, whole, log.procs) if not drains or _drains(each)]
        if not tried:
            break
        candidates = []
        for at, (what, changed) in enumerate(tried):
            candidates.append((near(changed), what, changed))
            if progress is not None:
                progress(f"changes, round {round_ + 1}", at + 1, len(tried))
        top, what, changed = max(candidates, key=lambda each: gain(each[0], best))
        if gain(top, best) < GAIN:
            break
        best, rule = top, changed
        steps.append((what, *best.mean(axis=0)))
    return Inferred(rule, pd.DataFrame(steps, columns=["what", "correlation", "off"]))


def drained(
    jobs: pd.DataFrame, procs: int, clock: Clock, start_s: np.ndarray, end_s: np.ndarray, until_s: int, since: Rule | None = None
) -> Rule | None:
    """Return a rule on ``procs`` processors with the closings that jobs kept to, if any.

    Jobs that end after ``until_s`` are not read. ``start_s`` and ``end_s`` int64 [jobs] are recorded; ``since`` changes only to a
    nearer rule.
    """
    ended = np.flatnonzero(end_s <= until_s)
    log = Recorded(jobs.iloc[ended].reset_index(drop=True), procs, clock, start_s[ended], end_s[ended], len(ended))
    rule = infer(log, drains=True, since=since).rule
    return rule if rule.closings else None


def changes(rule: Rule, whole: Rule, procs: int) -> list[tuple[str, Rule]]:
    """Return the possible changes of ``rule``, each with its name.

    ``whole`` has all that was read from the starts.
    """
    candidates = [("closings", replace(rule, closings=whole.closings)), ("no closings", replace(rule, closings=()))]
    for name, hours in whole.hours:
        others = tuple(each for each in rule.hours if each[0] != name)
        there = len(others) < len(rule.hours)
        candidates.append(
            (f"{'no ' if there else ''}hours of {name}", replace(rule, hours=others if there else (*others, (name, hours))))
        )
    candidates.append(
        ("no limits of queues" if rule.queues else "limits of queues", replace(rule, queues=() if rule.queues else whole.queues))
    )
    candidates.append(("processors", replace(rule, procs=whole.procs if rule.procs == procs else procs)))
    for columns in _COLUMNS:
        for what, values in _MOST.items():
            others_ = tuple(each for each in rule.limits if (each.columns, each.what) != (columns, what))
            if len(others_) < len(rule.limits):
                candidates.append((f"no limit of {what} for each {' and '.join(columns)}", replace(rule, limits=others_)))
            for value in values:
                limit = Limit(columns, what, max(int(value * procs), 1) if what == "processors" else int(value))
                candidates.append((str(limit), replace(rule, limits=(*others_, limit))))
    candidates += [(algorithm, replace(rule, algorithm=algorithm)) for algorithm in _ALGORITHMS]
    for a in _PER_REQUESTED:
        for b in _PER_AREA:
            order = f"submit+a*requested+b*requested*n/procs;a={a};b={b}" if a or b else ""
            candidates.append((f"order {order or 'of submission'}", replace(rule, order=order)))
    return [(what, each) for what, each in candidates if each != rule]


def _drains(rule: Rule) -> bool:
    """Tell whether ``rule`` is EASY, or has closings and at most another algorithm."""
    plain = Rule(rule.procs, origin_s=rule.origin_s)
    return rule == plain or (bool(rule.closings) and replace(rule, closings=(), algorithm="EASY") == plain)


def seen(log: Recorded, rule: Rule, least: int = _LEAST) -> Rule:
    """Return ``rule`` with the closings, hours and limits that known starts show.

    They are those of the first part; limits are of queues and of processors. Closings need at least ``least`` jobs.
    """
    jobs = log.jobs.iloc[: log.first][log.had_started]
    start, end = (times[: log.first][log.had_started] for times in (log.start_s, log.end_s))
    cut = int(log.jobs["submit_s"].iloc[log.first - 1])
    procs, queue = jobs["procs"].to_numpy(np.int64), queue_of(jobs)
    most = {name: peak(start[queue == name], end[queue == name], procs[queue == name], cut) for name in sorted(set(queue))}
    begins = start + rule.origin_s - MONDAY_S
    hours, hour = [], begins % DAY_S // 3600
    for name in most:
        held = np.bincount(hour[(queue == name) & (start - jobs["submit_s"].to_numpy(np.int64) > _HELD_S)], minlength=24)
        if held.sum() >= _LEAST and (held < _RARE * held.mean()).any():
            hours.append((name, tuple(np.flatnonzero(held >= _RARE * held.mean()).tolist())))
    return replace(
        rule,
        procs=max(log.procs, peak(start, end, procs, cut)),
        closings=closings(begins, jobs["requested_s"].to_numpy(np.int64), least),
        hours=tuple(hours),
        queues=tuple(most.items()),
    )


def closings(start: np.ndarray, requested: np.ndarray, least: int) -> tuple[int, ...]:
    """Return the half hours of the week at which hardly any job was planned to run.

    In seconds from the beginning of the week.
    """
    steps = WEEK_S // _STEP_S
    first, last = start // _STEP_S + 1, -(-(start + requested) // _STEP_S)
    change = np.zeros(2 * steps + 1, np.int64)  # jobs planned to run over each step of two weeks
    np.add.at(change, first % steps, 1)
    np.add.at(change, first % steps + np.minimum(np.maximum(last - first, 0), steps), -1)
    over = np.cumsum(change[:-1]).reshape(2, steps).sum(axis=0)
    if np.median(over) < least:
        return ()
    return tuple((np.flatnonzero(over < _RARE * np.median(over)) * _STEP_S).tolist())


def peak(start: np.ndarray, end: np.ndarray, procs: np.ndarray, until: int) -> int:
    """Return the max processors held at once up to ``until``.

    In each second ends count before starts.
    """
    time, change = np.concatenate([end, start]), np.concatenate([-procs, procs])
    order = np.lexsort((change, time))
    return int(np.cumsum(change[order])[time[order] <= until].max(initial=0))
