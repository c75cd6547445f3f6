"""Which recorded starts the site's rules explain, and since when they explain fewer.

Slurm's rules are asked in the recorded state, so a decision that they do not explain does not spoil later ones. If the
share of explained decisions falls from one day on, the site's files no longer describe what decides there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from sim.slurm.begin import begin
from sim.slurm.events import RecordedState, held_nodes, recorded_events, shown_in_log
from sim.slurm.phases import Phases, clock_settings, draw_phases, origin_of
from sim.slurm.recorded import START
from sim.slurm.site import Site

FALSE_ALARMS = 0.001
"""Chance of an alarm in a night at a site whose days are alike: on average at most one in a thousand nights."""
LEAST_FALL = 0.05
"""A smaller fall of the share is ignored."""
FEWEST_DAYS = 7
"""Min days before a fall."""
_ORDERS = 4_999
_PHASES = 12
"""Number of phases of the priority computation that are tried."""
_MOST_ASKED = 5_000


class Decisions(NamedTuple):
    """Counts of decisions from recorded states.

    ``starts`` are recorded starts, ``predicted`` those of them that the rules make, ``extra`` starts that did not
    happen.
    """

    starts: int
    predicted: int
    extra: int

    def summary(self) -> dict[str, float]:
        """Return shares of the recorded starts."""
        return {"decisions": self.predicted / self.starts, "decisions_extra": self.extra / self.starts}


class Look(NamedTuple):
    """What the rules give in a recorded state, as rows of jobs.

    ``real`` are the jobs that start in this second of the record, ``predicted`` those of them that the rules start, and
    ``extra`` those that the rules start but the record does not start soon.
    """

    second_s: int
    real: set[int]
    predicted: set[int]
    extra: set[int]


class Fall(NamedTuple):
    """The day from which on fewer decisions are explained; shares ``before`` and ``after``."""

    day: str
    before: float
    after: float


def decisions(site: Site, jobs: pd.DataFrame, seed: int = 0, logged: Phases | None = None) -> Decisions:
    """Ask at each second with recorded starts what would start from the recorded state.

    A pass and a cycle are tried after that second's ends, its submissions, and both, as their order is unknown. The
    best of the six counts, at the phase of the priority computation that explains most: no accounting has it. Of phases
    ``logged`` by slurmctld the passes and cycles of that second are tried alone, in order with its events, by
    milliseconds. A start is extra if the record does not make it within the time between two cycles; where nothing is
    recorded for longer than that, starts are extra, too. ``jobs`` has ``start_s end_s nodes`` beside the columns of a
    replay; the first 5,000 are asked about.
    """
    jobs = jobs.head(_MOST_ASKED)
    drawn, period = draw_phases(site, len(jobs), seed), clock_settings(site)[2]
    tries = [drawn]
    if logged is not None:
        tries = [logged.of_first(len(jobs))]
    elif site.multifactor:
        tries = [drawn._replace(decay_s=period * part / _PHASES) for part in range(_PHASES)]
    by_phase = []
    for phases in tries:
        looks = [*_looks(site, jobs, phases)]
        by_phase.append(Decisions(*(sum(map(len, sets)) for sets in list(zip(*looks, strict=True))[1:])))
    return max(by_phase, key=lambda decided: decided.predicted - decided.extra / 2)


def by_day(site: Site, jobs: pd.DataFrame, from_s: int, timezone: str = "UTC") -> pd.DataFrame:
    """Return how many decisions from ``from_s`` on the rules explain, day by day.

    Columns ``day starts explained extra``: ``day`` is a date of the site's clock, ``starts`` counts those of jobs that
    had to wait (any rules start a job at once if nodes are free), ``extra`` counts jobs that the rules start and the
    record does not. ``jobs`` is as in :func:`decisions`; those before ``from_s`` only build up the state. At most about
    5,000 starts are asked about, evenly spaced, with one phase of the priority computation.
    """
    starts = jobs["start_s"].to_numpy(np.int64)
    waited = set(np.flatnonzero(starts > jobs["submit_s"] + clock_settings(site)[1]).tolist())
    every = -(-len(np.unique(starts[starts >= from_s])) // _MOST_ASKED) or 1
    looks = [*_looks(site, jobs, draw_phases(site, len(jobs), 0), from_s, every)]
    when = local_clock_s(np.array([look.second_s for look in looks], np.int64), origin_of(jobs), timezone)
    rows = [(look.real & waited, look.predicted & waited, look.extra) for look in looks]
    table = pd.DataFrame(rows, columns=["starts", "explained", "extra"])
    days = table.groupby(when // DAY_S).agg(_distinct)  # a job is extra once a day
    days.index = pd.to_datetime(days.index * DAY_S, unit="s").strftime("%Y-%m-%d")
    return days.rename_axis("day").reset_index()


def _distinct(sets: pd.Series) -> int:
    return len(set[int]().union(*sets))


def fall(days: pd.DataFrame) -> Fall | None:
    """Return since when fewer decisions are explained than before, or None.

    ``days`` is a table of :func:`by_day`. Of all days with at least seven before them, the one is taken that best
    separates the shares explained/(starts + extra), by the z of two proportions. It counts if at most one in a thousand
    random orders of the days exceeds that z (:data:`FALSE_ALARMS`), and the share falls by :data:`LEAST_FALL`. Days may
    differ in any way, if each is as likely anywhere: then there is at most one alarm in a thousand nights, on average.
    If a day resembles the day before there are more: on generated days in 0.3 % of nights with a correlation of 0.3, in
    4 % with 0.6.
    """
    good, total = days["explained"].to_numpy(np.float64), (days["starts"] + days["extra"]).to_numpy(np.float64)
    good, total, names = good[total > 0], total[total > 0], days["day"].to_numpy(object)[total > 0]
    if len(total) <= FEWEST_DAYS:
        return None
    random = np.random.default_rng([0, 0x46])
    orders = np.vstack([np.arange(len(total)), random.permuted(np.tile(np.arange(len(total)), (_ORDERS, 1)), axis=1)])
    parted = _parted(good[orders], total[orders])
    best = parted.max(axis=1)
    at = FEWEST_DAYS + int(parted[0].argmax())
    before, after = good[:at].sum() / total[:at].sum(), good[at:].sum() / total[at:].sum()
    rare = (best >= best[0] - 1e-9).mean() <= FALSE_ALARMS
    return Fall(str(names[at]), before, after) if rare and before - after >= LEAST_FALL else None


def _parted(good: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return z of a lower share after each cut than before it, [orders, cuts]."""
    before, all_before = (np.cumsum(counts, axis=1)[:, FEWEST_DAYS - 1 : -1] for counts in (good, total))
    whole, all_of = good[0].sum(), total[0].sum()
    after, all_after, share = whole - before, all_of - all_before, whole / all_of
    spread = np.sqrt(share * (1 - share) * (1 / all_before + 1 / all_after))
    return np.asarray((before / all_before - after / all_after) / np.maximum(spread, 1e-12))


def _looks(site: Site, jobs: pd.DataFrame, phases: Phases, from_s: int = 0, every: int = 1) -> Iterator[Look]:
    """Follow the record; look at each ``every``-th busy and idle second from ``from_s`` on."""
    origin = origin_of(jobs)
    slurm = begin(site, jobs, phases)
    shown = shown_in_log(phases)
    events = recorded_events(site, jobs, phases, slurm, shown)
    first = jobs["priority"].to_numpy(np.float64)  # of jobs that start together
    if phases.starts_s is not None:
        first = np.where(np.isnan(phases.starts_s), first, -phases.starts_s)
    record = RecordedState(slurm, held_nodes(site, jobs), first, jobs["job_id"])
    start = jobs["start_s"].to_numpy(np.int64) - origin
    wait, busy, idle, at = clock_settings(site)[1] + 5, 0, 0, 0
    while at < len(events):
        second, here = events[at][0] // 1000, at
        while at < len(events) and events[at][0] // 1000 == second:
            at += 1
        together = events[here:at]
        real = {row for _, kind, row in together if kind == START}
        busy += bool(real)
        asks = bool(real) and second + origin >= from_s and busy % every == 0
        tries = record.follow(together, shown.get(second, ()), asks)
        if asks:
            soon = real | set(np.flatnonzero((start > second) & (start <= second + wait)).tolist())
            best = max(tries, key=lambda tried: len(tried & real) - len(tried - soon) / 2)
            yield Look(second, real, best & real, best - soon)
        if at < len(events) and events[at][0] // 1000 - second > wait:
            idle += 1
            if second + wait + origin >= from_s and idle % every == 0:
                yield Look(second + wait, set(), set(), set[int]().union(*record.guesses(second + wait)))
