"""A site's record as events, and the states in which starts of Slurm are tried."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pandas as pd

from features.node_list import expand_nodes
from sim.slurm import slots
from sim.slurm.phases import Phases, clock_settings, origin_of
from sim.slurm.recorded import CANCEL, CHANGE, CLEAR, CYCLE, DECAY, END, LOOK, PASS, START, SUBMIT, follow
from sim.slurm.site import Site
from sim.slurm.state import DRAINED, MADE, NONE, Slurm

Event: TypeAlias = tuple[int, int, int]
"""A millisecond, a kind of :mod:`sim.slurm.recorded`, and a job."""
_NOTHING = np.empty(0, np.int64)
_MIDDLE_MS, _LATE_MS = 500, 900
"""When in its second an event is, and when Slurm is tried, if no log says it."""


def held_nodes(site: Site, jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return where each job's nodes begin, int64 [jobs + 1], and the nodes.

    A job without a node known to the site holds all of the site's nodes.
    """
    names = {node.name: number for number, node in enumerate(site.nodes)}
    codes, texts = pd.factorize(jobs["nodes"].astype(str))
    node_numbers = [[names[name] for name in expand_nodes(text) if name in names] if text else [] for text in texts]
    held = [np.array(numbers or [*names.values()], np.int64) for numbers in node_numbers]
    first = np.concatenate(([0], np.cumsum(np.array([len(nodes) for nodes in held], np.int64)[codes])))
    return first, np.concatenate([np.empty(0, np.int64), *(held[code] for code in codes)])


def follow_events(events: Sequence[Event], slurm: Slurm, first: np.ndarray = _NOTHING, node: np.ndarray = _NOTHING) -> None:
    """Handle ``events``, each (millisecond, kind, job), in order.

    ``first`` and ``node`` are those of :func:`held_nodes`; only a START reads them.
    """
    ms, kind, job = np.array(events, np.int64).T.copy()
    follow(ms, kind, job, first, node, _NOTHING, _NOTHING, slurm)


def shown_in_log(phases: Phases) -> dict[int, list[Event]]:
    """Return the passes and cycles that a log shows, in order, by second."""
    times = [(when, PASS) for when in (*phases.passes_s, *phases.direct_s)] + [(when, CYCLE) for when in phases.cycles_s]
    by_second: dict[int, list[Event]] = {}
    for when, kind in sorted(times):
        by_second.setdefault(int(when), []).append((round(when * 1000), kind, 0))
    return by_second


def ordered(
    of_jobs: Sequence[tuple[int, np.ndarray]], decays_ms: np.ndarray, slurm: Slurm
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return milliseconds, kinds and rows of the events of a record in order, int64 [events].

    ``of_jobs`` are kinds with the milliseconds of each job, NaN: not recorded. To these and the computations of
    priorities come the changes of the site and the ends of begin times.
    """
    outages, begins = slurm.outages, np.unique(slurm.ask.begin_ms[slurm.ask.begin_ms > 0])
    of_site = np.flatnonzero((outages.node != NONE) | (np.isin(outages.up, (DRAINED, MADE)) & (outages.job != NONE)))
    parts = [(kind, ms, np.arange(len(ms))) for kind, ms in of_jobs]
    parts.append((CHANGE, outages.time_ms[of_site], of_site))
    parts += [(kind, ms, np.full(len(ms), NONE)) for kind, ms in ((LOOK, begins), (DECAY, decays_ms))]
    kind = np.repeat([kind for kind, _, _ in parts], [len(ms) for _, ms, _ in parts])
    ms, row = (np.concatenate([part[at] for part in parts]).astype(np.float64) for at in (1, 2))
    recorded = np.flatnonzero(~np.isnan(ms))
    ms, kind, row = (values[recorded].astype(np.int64) for values in (ms, kind, row))
    order = np.lexsort((row, kind, ms))
    return ms[order], kind[order], row[order]


def recorded_events(site: Site, jobs: pd.DataFrame, phases: Phases, slurm: Slurm, shown: dict[int, list[Event]]) -> list[Event]:
    """Return the recorded events in order.

    That is by milliseconds where a log tells them, else the order in which Slurm handles events of one second.
    """
    submit, start, end, gone = (
        jobs[name].to_numpy(np.int64) - origin_of(jobs) for name in ("submit_s", "start_s", "end_s", "cancel_s")
    )
    ran, cancelled = np.array(jobs["start_s"] >= 0), np.array((jobs["start_s"] < 0) & (jobs["cancel_s"] >= 0))
    submit_ms = submit * 1000 + (np.round(phases.parts_s * 1000).astype(np.int64) if shown else _MIDDLE_MS)
    start_ms, end_ms, clear_ms = (np.where(ran, times, np.nan) for times in _run_times(start, end, phases, slurm.rules.epilog_ms))
    gone_ms = np.where(cancelled, gone * 1000 + _MIDDLE_MS, np.nan)
    of_jobs = ((END, end_ms), (CLEAR, clear_ms), (SUBMIT, submit_ms), (CANCEL, gone_ms), (START, start_ms))
    decays_s = np.empty(0)
    if site.multifactor:
        period = clock_settings(site)[2]
        first = phases.decay_s + max((int(submit.min()) - int(phases.decay_s)) // period, 0) * period
        decays_s = np.arange(first, end.max(), period)
    events = [*zip(*(values.tolist() for values in ordered(of_jobs, np.round(decays_s * 1000), slurm)), strict=True)]
    return events if shown else sorted(events, key=lambda event: (event[0] // 1000, *event[1:]))


def _run_times(start: np.ndarray, end: np.ndarray, phases: Phases, epilog_ms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when jobs begin, end, and have cleared their nodes, in milliseconds."""
    start_ms = start * 1000 + _MIDDLE_MS
    end_ms = np.maximum(end, start + 1) * 1000 + _MIDDLE_MS  # an end in the second of the start comes one later
    if phases.starts_s is None or phases.ends_s is None or phases.answers_s is None:
        return start_ms, end_ms, end_ms + epilog_ms // 1000 * 1000
    start_ms = np.where(np.isnan(phases.starts_s), start_ms, phases.starts_s * 1000)
    # a job may be preempted as soon as it starts
    end_ms = np.where(np.isnan(phases.ends_s), end_ms, np.maximum(phases.ends_s * 1000, start_ms + 1))
    return start_ms, end_ms, end_ms + np.where(np.isnan(phases.answers_s), epilog_ms, phases.answers_s * 1000)


class RecordedState:
    """The recorded state, in which it is tried what Slurm would start."""

    def __init__(self, slurm: Slurm, held: tuple[np.ndarray, np.ndarray], first: np.ndarray, job_ids: pd.Series) -> None:
        """``first`` float64 [jobs]: of jobs that start together, those of higher values do first.

        Rows of one job in ``job_ids`` [jobs] are its runs: Slurm requeues a job in its own record, also a task of an
        array.
        """
        self.slurm, self.held, self.first = slurm, held, first
        runs = job_ids.to_frame().groupby("job_id").indices.values()
        self.before = {row: rows[0] for rows in runs for row in rows[1:]}
        slurm.ask.array[[*self.before]] = NONE
        self.state: list[np.ndarray] = [*slurm.now, slurm.numbers, slurm.tree.usage, slurm.tree.factor]

    def follow(self, events: list[Event], shown: Sequence[Event], asks: bool) -> list[set[int]]:
        """Handle the events of one second; return what starts in each try, if it is asked.

        With passes and cycles ``shown`` by a log the second is tried once, in order of time.
        """
        others = [event for event in events if event[1] != START]
        if shown:
            looks = [(ms, LOOK, 0) for ms, _, _ in shown]  # a pass notes which jobs have become eligible
            tries = [self._tried(sorted([*others, *looks, *shown]))] if asks else []
            self._handle(sorted([*events, *looks]))
            return tries
        second, tries = events[0][0] // 1000, list[set[int]]()
        middle, late = second * 1000 + _MIDDLE_MS, second * 1000 + _LATE_MS
        ends, rest = ([(middle, kind, row) for _, kind, row in others if (kind in (END, CLEAR)) == ends] for ends in (True, False))
        if asks:
            kept = self._kept()
            self._handle([*rest, (late, LOOK, 0)])
            tries += self.guesses(second)
            self._undo(kept)
        for part in (ends, rest):
            self._handle([*part, (late, LOOK, 0)])
            tries += self.guesses(second) if asks else []
        self._handle([(late, kind, row) for _, kind, row in events if kind == START])
        return tries

    def guesses(self, second: int) -> list[set[int]]:
        """Return what a pass, and what a cycle would start late in a second."""
        return [self._tried([(second * 1000 + _LATE_MS, kind, 0)]) for kind in (PASS, CYCLE)]

    def _handle(self, events: list[Event]) -> None:
        """Handle events in order; jobs that start together do so by ``first``."""
        for starts, together in groupby(events, key=lambda event: event[1] == START):
            if not starts:
                others = list(together)
                for row in self.before.keys() & {row for _, kind, row in others if kind == SUBMIT}:
                    self.slurm.now.place[row] = self.slurm.now.place[self.before[row]]
                follow_events(others, self.slurm)
                continue
            for event in sorted(together, key=lambda event: (event[0], -self.first[event[2]], event[2])):
                follow_events([event], self.slurm, *self.held)

    def _tried(self, events: list[Event]) -> set[int]:
        kept, started = self._kept(), set[int]()
        for event in events:
            before = self.slurm.now.attempts.copy()
            follow_events([event], self.slurm)
            started.update(np.flatnonzero(self.slurm.now.attempts != before).tolist())
        self._undo(kept)
        return started

    def _kept(self) -> list[np.ndarray]:
        return [array.copy() for array in self.state]

    def _undo(self, kept: list[np.ndarray]) -> None:
        stamp = self.slurm.numbers[slots.STAMP]
        for array, old in zip(self.state, kept, strict=True):
            array[:] = old
        self.slurm.numbers[slots.STAMP] = stamp  # what was marked in this try must not count in the next
