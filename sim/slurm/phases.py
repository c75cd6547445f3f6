"""Phases of Slurm's clocks and fractions of seconds, drawn or from a log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S
from sim.slurm.lines import seconds
from sim.slurm.releases import WHOLE_SECONDS
from sim.slurm.site import Site

LEAD_S = 30
"""Seconds before the first submission at which slurmctld is assumed to have last made a full pass and charged usage."""
TURN_MS = 1_004
"""Time between turns of slurmctld's background loop: a second plus its own work (1,003 to 1,005 ms measured)."""
TURN_WORK_S, CYCLE_WORK_S = (0.0005, 0.0055), (0.001, 0.008)
"""The least and the longest work of a turn until 23.02, and of a cycle (measured on 34 recorded runs)."""
MOST_DIRECT = 0.25
"""The largest share of ends without an Epilog that a direct pass follows (0 to 26 % in 24 recorded runs)."""
FIRST_POLL_S = 30.8
"""Seconds from slurmctld's start to the first poll of time limits (measured)."""
LATE_S = 0.005
"""How long after a whole second the background loop turns since 23.11, at most (measured)."""
ANSWER_MS, EPILOG_MS = 5, 16
"""How long a node stays COMPLETING without an Epilog, and beyond one, which slurmd must start (3 to 8 ms and 14 to 20
measured)."""
LAUNCH_MS = 80
"""Milliseconds of launch and exit beyond a program's runtime (50 to 150 ms measured)."""
TRIES = 60
"""Number of times in a PriorityCalcPeriod that :mod:`sim.site.computed` tries."""
READ_WITHIN_S = 2.0
"""How far around one of its times the time is drawn; they lie within 3 s of those of the logs in 32 of 34 recorded
runs."""
_OF_JOBS = ("parts_s", "runtimes_s", "answers_s", "starts_s", "ends_s", "run_parts_s", "direct")
"""Fields of :class:`Phases` with a value for each job."""


class Phases(NamedTuple):
    """What accounting does not record: phases of Slurm's clocks, and fractions of seconds.

    ``turn_s``, ``cycle_s``, ``decay_s`` and ``poll_s`` are the first turn, cycle, computation of priorities and poll of
    time limits, in seconds from the beginning of the replay. ``parts_s`` float64 [jobs] are added to the submissions.
    ``turn_length_s`` is the time between turns of the background loop. ``full_s`` and ``asked_s`` are the times of the
    last full pass and the last pass before the first submission, in seconds from it. ``runtimes_s`` float64 [jobs] are
    exact runtimes with launch and exit, NaN if unknown. Computations of priorities may lie up to ``decay_spread_s``
    later; the polls are then unknown, too. ``cycles_s``, ``passes_s`` at turns of the background loop and ``direct_s``
    between turns are those of the log, in order: a replay's keep to them where they are close. ``answers_s`` float64
    [jobs] are how long the nodes of ended jobs were COMPLETING, NaN if unknown; ``starts_s`` and ``ends_s`` float64
    [jobs] are recorded starts and ends, from the beginning of the replay, NaN if unknown. ``drains`` float64 [outages]
    says where in its time an order to drain a node came, from 0 (the default), the earliest, to 1. ``cycle_work_s`` is
    how long a cycle takes; the next one is due ``bf_interval`` later. ``run_parts_s`` float64 [jobs] are added to
    runtimes of whole seconds. ``direct`` bool [jobs]: whose end causes a direct pass also without an Epilog, as a step
    was still there. ``seed`` draws which turns on whole seconds slurmctld takes for a second earlier; -1: none.
    """

    turn_s: float
    cycle_s: float
    decay_s: float
    parts_s: np.ndarray
    turn_length_s: float = TURN_MS / 1000
    poll_s: float = 0.0
    full_s: float = -LEAD_S
    asked_s: float = -LEAD_S
    runtimes_s: np.ndarray | None = None
    decay_spread_s: float = 0.0
    cycles_s: np.ndarray = np.empty(0)
    passes_s: np.ndarray = np.empty(0)
    direct_s: np.ndarray = np.empty(0)
    drains: np.ndarray | None = None
    answers_s: np.ndarray | None = None
    starts_s: np.ndarray | None = None
    ends_s: np.ndarray | None = None
    cycle_work_s: float = 0.0
    run_parts_s: np.ndarray | None = None
    direct: np.ndarray | None = None
    seed: int = -1

    def of_first(self, jobs: int) -> Phases:
        """Return the phases of the first ``jobs`` alone."""
        columns = {name: getattr(self, name) for name in _OF_JOBS}
        return self._replace(**{name: values[:jobs] for name, values in columns.items() if values is not None})

    def begun(self, start_s: float, site: Site, first_s: float) -> Phases:
        """Return the phases of clocks that all began at ``start_s``, with slurmctld.

        Both times are in seconds from the beginning of the replay. The first job is submitted in the second
        ``first_s``.
        """
        interval, between, _ = clock_settings(site)
        full_s = start_s - first_s
        full_s += interval * max(-full_s // interval, 0)
        return self._replace(
            turn_s=self.turn_s if site.known_release >= WHOLE_SECONDS else start_s,
            cycle_s=start_s + between,
            decay_s=start_s,
            poll_s=start_s + FIRST_POLL_S,
            full_s=full_s,
            asked_s=full_s,
        )


def draw_phases(site: Site, jobs: int, seed: int) -> Phases:
    """Draw random phases, as one accounting is consistent with many."""
    random = np.random.default_rng([seed, 0x51])
    interval, between, period = clock_settings(site)
    on_seconds = site.known_release >= WHOLE_SECONDS
    turn_length_s = 1.0 if on_seconds else TURN_MS / 1000
    turn, cycle, decay = random.random(3) * (LATE_S if on_seconds else turn_length_s, between, period)
    parts, poll, full = random.random(jobs), 30 * random.random(), -interval * random.random()
    return Phases(turn, cycle, decay, parts, turn_length_s, poll_s=poll, full_s=full, asked_s=full)


def draw(site: Site, jobs: pd.DataFrame, seed: int) -> Phases:
    """Draw all that the accounting of ``jobs`` does not tell.

    That is slurmctld's clocks, fractions of seconds, and when nodes were ordered to drain. Accounting cuts off the
    fractions of starts and ends: a run may be up to a second longer or shorter than recorded. When priorities were
    computed may be known (:mod:`sim.site.computed`); all clocks of a slurmctld that began with the record follow from
    it.
    """
    phases, random = draw_phases(site, len(jobs), seed), np.random.default_rng([seed, 0x53])
    turn_work_s = random.uniform(*TURN_WORK_S)
    phases = phases._replace(
        drains=random.random(len(site.outages)),
        turn_length_s=1.0 if site.known_release >= WHOLE_SECONDS else 1.0 + turn_work_s,
        cycle_work_s=random.uniform(*CYCLE_WORK_S),
        run_parts_s=random.random(len(jobs)) - random.random(len(jobs)),
        direct=random.random(len(jobs)) < random.uniform(0, MOST_DIRECT),
        seed=seed,
    )
    if not site.computed_s:
        return phases
    origin, off_s = origin_of(jobs), max(clock_settings(site)[2] / TRIES / 2, READ_WITHIN_S)
    computed_s = float(random.choice(site.computed_s)) + random.uniform(-off_s, off_s) - origin
    if not site.begins:
        return phases._replace(decay_s=computed_s)
    first_s = int(jobs["submit_s"].min()) - origin
    return phases.begun(min(computed_s, first_s + float(phases.parts_s[0])), site, first_s)


def clock_settings(site: Site) -> tuple[int, int, int]:
    """Return ``sched_interval``, ``bf_interval`` and ``PriorityCalcPeriod`` in seconds."""
    period = seconds(site.settings.get("prioritycalcperiod", "5"))
    return site.parameter("sched_interval"), max(site.parameter("bf_interval"), 1), max(period, 1)


def answered_ms(site: Site) -> int:
    """Return how long the nodes of an ended job are usually COMPLETING, in ms."""
    return round(site.epilog_s * 1000) + (EPILOG_MS if "epilog" in site.settings else ANSWER_MS)


def origin_of(jobs: pd.DataFrame) -> int:
    """Return the Unix second at which a replay of ``jobs`` begins.

    It is a midnight, as Slurm rounds to multiples of seconds since 1970.
    """
    return (int(jobs["submit_s"].min()) - LEAD_S) // DAY_S * DAY_S
