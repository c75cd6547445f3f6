"""When waiting jobs at a Slurm site will start, by running its scheduler ahead.

It goes on from a moment, once for each scenario. The state at that moment follows from the record of the present jobs
(:mod:`sim.slurm.recorded`): they are submitted, and those that run start on the nodes that they hold. From then on the
one event loop goes on as in a replay (:mod:`sim.site.replay`), with phases of Slurm's clocks drawn anew in each
scenario.
"""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.errors import InputError
from models.packed.queue_state import NOT_YET as UNKNOWN
from models.packed.queue_state import QueueJobs as Queued
from models.packed.start_predictor import SLURM
from sim.campaigns.maps import threads
from sim.kernel.scratch import Scratch
from sim.kernel.state import ENDS, EVENTS, FREE, NEXT, PLANS, STARTED
from sim.site.replay import site_loop
from sim.slurm import slots
from sim.slurm.begin import as_rules, begin
from sim.slurm.events import follow_events, held_nodes, ordered
from sim.slurm.phases import LAUNCH_MS, LEAD_S, Phases, draw_phases, origin_of
from sim.slurm.recorded import CANCEL, CLEAR, DECAY, END, LOOK, START, SUBMIT, follow
from sim.slurm.requests import COLUMNS
from sim.slurm.site import Site
from sim.slurm.state import ABSENT, NO_TIME, NONE, RUNS, Slurm
from sim.starts.ahead import Ahead, PresentQueue, arrivals

_EVENTS = 2_000
"""Number of events after which it is checked whether all waiting jobs have started."""
_IDLE_MS = 3_600_000
"""If the machine is empty and nothing is to come for this long, jobs that still wait never start."""


_APART = 1 << 40
"""Added per draw to the group numbers of coming jobs, to keep them apart from those of present jobs."""


class SiteAhead(Ahead):
    """Run a Slurm site's queue ahead, as :class:`sim.starts.ahead.Ahead` does for a pool.

    ``table`` has a row for each job of ``jobs``, with the columns of :func:`starts_ahead` except times, processors and
    limits, which are those of ``jobs``, whose second 0 is ``origin_s``. Ended jobs from the row ``first`` on count as
    usage. A start later than ``within_s`` is given as ``within_s``.
    """

    def __init__(
        self, site: Site, table: pd.DataFrame, origin_s: int, first: int, *, within_s: int, scenarios: int = 64, seed: int = 0
    ) -> None:
        super().__init__(site.procs, scenarios=scenarios, groups=16, seed=seed)
        self.by = SLURM
        self.site, self.table, self._origin_s, self._first, self.within_s = site, table, origin_s, first, within_s

    def starts(self, queue: PresentQueue, only: np.ndarray | None = None, without: np.ndarray | None = None) -> np.ndarray:
        jobs, now_s = queue.jobs, queue.now_s
        left, runtimes = self.drawn(queue)
        rows = left.rows
        kept_rows, table = self.present(jobs, rows, now_s)
        if without is not None:  # they end now or are cancelled: without their rows, other phases would be drawn
            now, runs = float(now_s + self._origin_s), table["start_s"].notna() & table["end_s"].isna()
            table.loc[without[kept_rows] & runs, "end_s"] = now
            table.loc[without[kept_rows] & ~runs & table["end_s"].isna(), "cancel_s"] = now
        start, end = table["start_s"].to_numpy(np.float64), table["end_s"].to_numpy(np.float64)
        runtime_s = np.tile(end - start, (self.scenarios, 1))
        runtime_s[:, np.searchsorted(kept_rows, rows)] = runtimes
        coming = [
            self._asked(jobs, arrival.row).assign(
                submit_s=arrival.after_s + now_s + self._origin_s, runtime_s=arrival.runtime, draw=draw
            )
            for draw, arrival in enumerate(arrivals(jobs, now_s, self.groups, self.seed))
        ]
        more = pd.concat(coming).sort_values("submit_s", kind="stable", ignore_index=True)
        more = more.assign(group=more["group"] + _APART * (1 + more["draw"]), after="")
        usage_s = float(table["submit_s"].min()) - LEAD_S
        phases, now = self.seed * self.scenarios, float(now_s + self._origin_s)
        table = table if only is None else table.assign(asked=np.isin(kept_rows, only))
        starts_s = starts_ahead(self.site, table, now, runtime_s, phases, more if len(more) else None, usage_s, self.within_s)
        return np.minimum(starts_s, self.within_s)

    def present(self, jobs: Queued, rows: np.ndarray, now_s: int) -> tuple[np.ndarray, pd.DataFrame]:
        """Return the jobs that are there, as rows and as a table.

        They are the ended jobs that count as usage and ``rows``; the table is as :func:`starts_ahead` takes it.
        """
        past = np.flatnonzero(jobs.end <= now_s)
        kept_rows = np.sort(np.concatenate((past[past >= self._first], rows)))
        start, end = (times[kept_rows].astype(np.float64) for times in (jobs.start, jobs.end))
        start[start >= UNKNOWN], end[end >= UNKNOWN] = np.nan, np.nan
        return kept_rows, self._asked(jobs, kept_rows).assign(start_s=start + self._origin_s, end_s=end + self._origin_s)

    def _asked(self, jobs: Queued, rows: np.ndarray) -> pd.DataFrame:
        """Return what jobs ask for, with node counts scaled like their processors."""
        table, procs = self.table.iloc[rows], jobs.procs[rows]
        nodes = {
            name: np.ceil(table[name].to_numpy() * procs / table["cpus"].to_numpy()).astype(np.int64)
            for name in ("min_nodes", "max_nodes")
        }
        limit = {"limit_s": jobs.requested[rows], "least_limit_s": np.minimum(table["least_limit_s"], jobs.requested[rows])}
        return table.assign(submit_s=jobs.submit[rows] + self._origin_s, cpus=procs, **nodes, **limit)


@dataclass(frozen=True)
class Moment:
    """A site at a moment.

    The first ``submitted`` jobs have been submitted; the others are to come. Milliseconds count from ``origin_s``;
    ``asked_ms`` is when a pass was last requested.
    """

    site: Site
    jobs: pd.DataFrame
    submitted: int
    origin_s: int
    now_ms: int
    slurm: Slurm
    asked_ms: int


def starts_ahead(
    site: Site,
    jobs: pd.DataFrame,
    now_s: float,
    runtimes_s: np.ndarray,
    phases: Phases | int = 0,
    arrivals: pd.DataFrame | None = None,
    usage_s: float | None = None,
    within_s: float = np.inf,
) -> np.ndarray:
    """Return in how many seconds from ``now_s`` each waiting job starts.

    float64 [scenarios, waiting], inf: never, or later than ``within_s``. With a column ``asked`` of the jobs, of those
    alone: a scenario ends when they have started.

    ``jobs`` has the columns of a replay (:data:`sim.slurm.requests.COLUMNS`), in order of submission, ``start_s`` (Unix seconds,
    NaN: waits) and ``nodes`` (those it holds). With ``end_s`` (NaN: runs) it may have ended jobs, which dependencies, throttles
    and usage need. ``accrue_s``, if present, is the time from which a waiting job's age counts (NaN: by the rules).
    ``runtimes_s`` float64 [scenarios, jobs] are whole runtimes, of running jobs longer than the time they ran. ``arrivals`` are
    jobs to come, in order of submission, with ``runtime_s``; with a column ``draw`` of numbers below n, each comes only in every
    n-th scenario. The site's usage is that at ``usage_s``, or now. ``phases`` are given, or each scenario draws its own by a
    seed, counted from ``phases`` on; given ones say when the last passes were. Raises InputError as
    :func:`sim.site.replay.replay`, and for runtimes of another number of jobs.
    """
    if missing := [name for name in (*COLUMNS, "start_s", "nodes") if name not in jobs]:
        raise InputError(f"the jobs have no column {missing[0]}")
    if runtimes_s.ndim != 2 or runtimes_s.shape[1] != len(jobs):
        raise InputError(f"the runtimes have the shape {runtimes_s.shape}, and should be (scenarios, {len(jobs)})")
    waits = jobs["start_s"].isna() & ~jobs["cancel_s"].between(0, now_s)
    rows = np.flatnonzero(waits & jobs["asked"] if "asked" in jobs else waits)
    if len(rows) * len(runtimes_s) == 0:
        return np.full((len(runtimes_s), len(rows)), np.inf)
    table = jobs if arrivals is None else pd.concat([jobs, arrivals], ignore_index=True)
    draw_of = None if arrivals is None or "draw" not in arrivals else arrivals["draw"].to_numpy(np.int64)
    draws = 1 if draw_of is None else int(draw_of.max(initial=0)) + 1
    drawn = phases if isinstance(phases, Phases) else draw_phases(site, len(table), phases)
    moment = lead(site, table, len(jobs), now_s, drawn, usage_s)

    def scenarios(numbers: range) -> tuple[range, np.ndarray]:
        slurm, scratch = deepcopy(moment.slurm), Scratch()
        state = [*slurm.now, *slurm.ask, *slurm.tree, *slurm.reservations, slurm.numbers]
        kept, starts = [array.copy() for array in state], np.empty((len(numbers), len(rows)))
        for place, row in enumerate(numbers):
            stamp, own = slurm.numbers[slots.STAMP], drawn
            for array, old in zip(state, kept, strict=True):
                array[:] = old
            slurm.numbers[slots.STAMP] = stamp  # what was marked in one scenario must not count in the next
            if not isinstance(phases, Phases):
                own = draw_phases(site, len(table), phases + row)
                slurm.numbers[[slots.LAST_FULL, slots.LAST_ASKED]] = moment.now_ms + round(own.full_s * 1000)
            asked_for = {name: getattr(slurm.rules, name) for name in ("has_components", "has_several_qos")}
            scenario = slurm._replace(rules=as_rules(site, own)._replace(**asked_for))
            _set_clocks(scenario, own, moment, usage_s is None)
            if draw_of is not None:
                slurm.now.phase[len(jobs) :][draw_of != row % draws] = ABSENT
            _advance(moment, scenario, own, runtimes_s[row], rows, within_s, scratch)
            first = slurm.now.first_ms[rows]
            starts[place] = np.where(first >= 0, (first - moment.now_ms) / 1000, np.inf)
        return numbers, starts

    workers = min(os.cpu_count() or 1, len(runtimes_s))
    starts = np.empty((len(runtimes_s), len(rows)))
    for numbers, own_starts_s in threads(workers)(scenarios, [range(at, len(runtimes_s), workers) for at in range(workers)]):
        starts[numbers] = own_starts_s
    starts[starts > within_s] = np.inf
    return starts


def lead(site: Site, table: pd.DataFrame, recorded: int, now_s: float, phases: Phases, usage_s: float | None) -> Moment:
    """Return the site as it is at ``now_s``, by the record of the first ``recorded`` jobs."""
    origin, slurm, jobs = origin_of(table), begin(site, table, phases), table.iloc[:recorded]
    now_ms, numbers = round((now_s - origin) * 1000), slurm.numbers
    accrue = jobs["accrue_s"].to_numpy(np.float64) if "accrue_s" in jobs else np.full(recorded, np.nan)
    accrued = np.flatnonzero(np.isfinite(accrue))
    slurm.now.accrues[accrued] = since = np.floor(accrue[accrued]).astype(np.int64) - origin
    numbers[slots.LAST_DECAY] = (now_ms if usage_s is None else round((usage_s - origin) * 1000)) // 1000
    ms, kind, row = _recorded(slurm, jobs, phases, now_ms, usage_s)
    follow(ms, kind, row, *held_nodes(site, jobs), accrued, since, slurm)
    numbers[slots.OUTAGE] = np.searchsorted(slurm.outages.time_ms, now_ms, side="right")
    numbers[slots.JOINED] = recorded
    asks = ms[~np.isin(kind, (START, DECAY)) & ((kind != LOOK) | (row == NONE))]
    return Moment(site, table, recorded, origin, now_ms, slurm, int(asks.max(initial=-NO_TIME)))


def _recorded(
    slurm: Slurm, jobs: pd.DataFrame, phases: Phases, now_ms: int, usage_s: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return milliseconds, kinds and rows of past events, in order, int64 [events]."""
    origin_s = origin_of(jobs)

    def in_ms(seconds: np.ndarray) -> np.ndarray:
        return np.round((seconds - origin_s) * 1000)

    submit = np.minimum(in_ms(jobs["submit_s"].to_numpy(np.float64) + phases.parts_s[: len(jobs)]), now_ms)
    start = np.fmax(in_ms(jobs["start_s"].to_numpy(np.float64)), submit)
    start = np.where(jobs["start_s"].isna(), np.nan, start)
    end = jobs["end_s"].to_numpy(np.float64) if "end_s" in jobs else np.full(len(jobs), np.nan)
    end = np.where(np.isnan(end), np.nan, np.fmax(in_ms(end), start + 1))
    gone = in_ms(jobs["cancel_s"].where(jobs["start_s"].isna() & (jobs["cancel_s"] >= 0)).to_numpy(np.float64))
    answer, decays_ms = end + slurm.rules.epilog_ms, np.empty(0)
    of_jobs = [(SUBMIT, submit), (START, start), (END, end), (CLEAR, answer), (CANCEL, gone)]
    of_jobs += [(LOOK, answer)] * (len(slurm.ask.after) > 0)
    if usage_s is not None and slurm.rules.multifactor:
        period, first = slurm.rules.calc_period * 1000, int(phases.decay_s * 1000)
        since = round((usage_s - origin_s) * 1000)
        decays_ms = np.arange(first + max(-((first - since) // period), 0) * period, now_ms + 1, period)
    ms, kind, row = ordered(of_jobs, decays_ms, slurm)
    passed = int(np.searchsorted(ms, now_ms, side="right"))
    return ms[:passed], kind[:passed], row[:passed]


def _set_clocks(slurm: Slurm, phases: Phases, moment: Moment, charged: bool) -> None:
    """Set Slurm's clocks by their phases, and priorities by their last computation.

    ``charged``: the usage is that of now. As far as is known, something has changed since the last pass and the last
    cycle.
    """
    numbers, rules, now_ms = slurm.numbers, slurm.rules, moment.now_ms
    numbers[slots.CYCLE] = _next(int(phases.cycle_s * 1000), rules.cycle_ms, now_ms)
    numbers[slots.LAST_CYCLE] = numbers[slots.CYCLE] - rules.cycle_ms
    numbers[slots.DECAY] = _next(int(phases.decay_s * 1000), rules.calc_period * 1000, now_ms)
    last = int(numbers[slots.DECAY]) - rules.calc_period * 1000
    if rules.multifactor and (charged or last // 1000 > numbers[slots.LAST_DECAY]):
        follow_events([(last, DECAY, 0)], slurm)
    numbers[slots.REQUESTS] = moment.asked_ms > numbers[slots.LAST_ASKED]
    # also before the first start of a record
    numbers[slots.DIRTY] = numbers[slots.BACKFILL_DIRTY] = 1
    numbers[slots.CHANGED_AT] = now_ms
    turns = max(now_ms - rules.first_turn_ms, 0) * 1000 // rules.turn_us
    while rules.first_turn_ms + turns * rules.turn_us // 1000 <= now_ms:
        turns += 1
    numbers[slots.TICK] = rules.first_turn_ms + turns * rules.turn_us // 1000


def _next(first: int, period: int, now: int) -> int:
    """Return the first turn of a clock after ``now``."""
    return first + max((now - first) // period + 1, 0) * period


def _advance(
    moment: Moment, slurm: Slurm, phases: Phases, runtime_s: np.ndarray, waiting: np.ndarray, within_s: float, scratch: Scratch
) -> None:
    """Run the event loop until all ``waiting`` jobs have started or can no longer start.

    It ends at most ``within_s`` after the moment.
    """
    table, recorded, now = moment.jobs, moment.submitted, moment.now_ms
    runtime_s = np.concatenate((runtime_s, table["runtime_s"].to_numpy(np.float64)[recorded:]))
    slurm.now.killed[:] |= runtime_s > slurm.ask.limit
    runtime = np.round(runtime_s * 1000).astype(np.int64) + LAUNCH_MS
    submit = np.round((table["submit_s"].to_numpy(np.float64) - moment.origin_s + phases.parts_s) * 1000).astype(np.int64)
    submit[recorded:] = np.maximum(np.sort(submit[recorded:]), now + 1)  # rows stay in their order within a second
    running = np.flatnonzero(slurm.now.phase == RUNS)
    start = slurm.now.start_ms[running]
    ends = np.maximum(start + runtime[running], now + 1)
    runtime[running] = ends - start
    loop = site_loop(slurm, submit, runtime, moment.site.procs, scratch)
    state, count, bits = loop.work.state, len(running), loop.settings.bits
    events = np.sort(ends << bits | np.arange(count))  # sorted, they are a heap too
    state.ends[:count] = state.plan[:count] = events
    state.plan_procs[:count] = slurm.ask.cpus[running[events & ((1 << bits) - 1)]]
    state.running[:count], state.start[running], state.planned[running] = running, start, ends
    counters = state.counters
    counters[[ENDS, PLANS, STARTED]], counters[NEXT] = count, recorded
    counters[FREE] -= slurm.ask.cpus[running].sum()
    last = min(moment.now_ms + within_s * 1000, NO_TIME)
    while now < last and (slurm.now.first_ms[waiting] < 0).any() and not _idle(slurm, counters, now, len(table)):
        counters[EVENTS] = _EVENTS
        now = loop.run(now)


def _idle(slurm: Slurm, counters: np.ndarray, now: int, total: int) -> bool:
    """Tell whether nothing has happened for long and nothing is to come."""
    numbers = slurm.numbers
    to_come = counters[ENDS] > 0 or counters[NEXT] < total or numbers[slots.OUTAGE] < len(slurm.outages.time_ms)
    return bool(not to_come and now > numbers[slots.CHANGED_AT] + _IDLE_MS)
