"""Phases of Slurm's clocks, from slurmctld's log: accounting does not hold them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.errors import InputError
from features.node_list import expand_nodes
from pipelines.readers.localtime import zone
from pipelines.readers.text import text_of
from sim.slurm.phases import FIRST_POLL_S, LEAD_S, Phases, answered_ms, clock_settings, origin_of
from sim.slurm.priority import Fixed
from sim.slurm.releases import THREADS_TOGETHER, WHOLE_SECONDS, read_release
from sim.slurm.site import UNLIMITED, Outage, Site

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+)\] (.*)")
_KINDS = {
    "turn": re.compile(r"debug:  sched: Running job scheduler"),
    "full": re.compile(r"debug:  sched: Running job scheduler for full queue"),
    "cycle": re.compile(r"sched/backfill: _attempt_backfill: (beginning|no jobs)"),
    "decay": re.compile(r"priority/multifactor: init: "),
    "submit": re.compile(r"_slurm_rpc_submit_batch_(?:het_)?job: JobId=(\d+)(?: InitPrio=(\d+))?"),
    "start": re.compile(
        r"(sched: Allocate|sched/backfill: _start_job: Started) JobId=(\d+(?:[_+]\d+)?)\S* (?:NodeList=|in \S+ on )(\S+)"
    ),
    "test": re.compile(r"BACKFILL: test for JobId=(\d+(?:[_+]\d+)?)\S* Prio=(\d+)"),
    "end": re.compile(r"_job_complete: JobId=(\d+(?:[_+]\d+)?)(?:\(\d+\))? done"),
    "stop": re.compile(r"preempted JobId=(\d+(?:[_+]\d+)?)(?:\(\d+\))? has been (?:requeued|killed)"),
}


_OF_SITE = (b"Created reservation=", b"update_node: node", b"slurmctld version")
"""Words in the lines that :func:`with_log` reads."""
_TICK_S = 0.01
"""How far the seconds of the accounting may lag behind the log, by a tick of the kernel's clock."""
_STEP_S = 0.1
_MS, _NEXT_LINE_S = 0.001, 1e-6
"""How exact the log's times are, and how much later a start is taken to be than that on the line before, in one
millisecond."""
_LATEST_S = 0.03
"""How long after a whole second a pass at a turn is, at most, since 23.11."""
_EARLY_S, _WORK_S, _LOOK_BACK = 0.004, 0.02, 25
"""How far before its second a turn may be, how much each turn's work may take, and how many passes before one are
looked at."""


class _Run(NamedTuple):
    """The start of a job in the log, on which nodes, and whether by a pass of the main scheduler."""

    job: str
    when: float
    nodes: str
    by_pass: bool


def with_log(path: Path, site: Site, timezone: str = "UTC") -> Site:
    """Return the site with what slurmctld's log says and no file.

    That is the release, when reservations were made, and outages. An order to drain a node lies before the event of its
    outage, which comes once its last job has ended. Outages that the site's events lack are added.
    """
    place, created_s, release = zone(timezone), dict[str, int](), site.release
    orders: dict[str, list[tuple[float, str]]] = defaultdict(list)
    with text_of(path) as lines:
        for line in lines:
            if not any(word in line for word in _OF_SITE):
                continue
            entry = _LINE.match(line.decode("utf-8", "replace"))
            when = None if entry is None else _unix_s(entry[1], place)
            if entry is None or when is None:
                continue
            if reservation := re.search(r"Created reservation=(\S+)", entry[2]):
                created_s[reservation[1]] = int(when)
            elif order := re.search(r"update_node: node (\S+) state set to (\w+)", entry[2]):
                orders[order[1]].append((when, order[2]))
            else:
                release = release or read_release(entry[2])
    reservations = tuple(
        replace(reserved, created_s=created_s.get(reserved.name, reserved.created_s)) for reserved in site.reservations
    )
    names, outages = {node.name for node in site.nodes}, list(site.outages)
    for name in orders.keys() & names:
        for (order_s, state), (end_s, _) in pairwise([*orders[name], (float(UNLIMITED), "")]):
            if not state.startswith(("DRAIN", "DOWN")):
                continue
            matching = [at for at, outage in enumerate(outages) if outage.node == name and order_s - 1 <= outage.start_s <= end_s]
            if matching:
                outages[matching[0]] = replace(outages[matching[0]], start_s=order_s, ordered_s=order_s)
            else:
                outages.append(Outage(name, order_s, end_s, state.startswith("DOWN"), order_s))
    return replace(site, release=release, reservations=reservations, outages=tuple(outages))


def _unix_s(text: str, place: ZoneInfo) -> float | None:
    """Return the time of a line in Unix seconds, None for one such as 2026-13-01, which is not by slurmctld."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=place).timestamp()
    except ValueError:
        return None


def read_phases(path: Path, site: Site, jobs: pd.DataFrame, timezone: str = "UTC") -> Phases:
    """Return the phases that a log shows.

    A log that was rotated lacks slurmctld's start: then computations of priorities are placed by the priorities in it.
    Slurm must write it with ``SlurmctldDebug=debug`` and ``DebugFlags=Backfill``. ``jobs`` are from the accounting of
    the same time. Raises InputError if the log shows no scheduling pass, or none during the time of the jobs.
    """
    place = zone(timezone)
    seen: dict[str, list[float]] = defaultdict(list)
    submitted: dict[int, float] = {}
    begun: dict[str, _Run] = {}
    runs: list[_Run] = []
    ended: dict[_Run, float] = {}
    runtimes: dict[str, float] = {}
    shown: list[tuple[str, float, int]] = []
    first_shown: list[tuple[str, float, int]] = []
    with text_of(path) as lines:
        for line in lines:
            if entry := _LINE.match(line.decode("utf-8", "replace")):
                if (when := _unix_s(entry[1], place)) is None:
                    continue
                for kind, form in _KINDS.items():
                    if event := form.search(entry[2]):
                        seen[kind].append(when)
                        if kind == "test":
                            shown.append((event[1], when, int(event[2])))
                        elif kind == "submit":
                            submitted[int(event[1])] = when
                            first_shown.append((event[1], when, int(event[2] or 0)))
                        elif kind == "start":
                            if runs and runs[-1].when - _MS < when <= runs[-1].when:
                                when = runs[-1].when + _NEXT_LINE_S
                            begun[event[2]] = _Run(event[2], when, event[3], event[1].endswith("Allocate"))
                            runs.append(begun[event[2]])
                        elif kind in ("end", "stop") and event[1] in begun:
                            ended.setdefault(begun[event[1]], when)
                            if kind == "end":
                                runtimes[event[1]] = when - begun[event[1]].when
    if not seen["turn"]:
        raise InputError(f"{path}: shows no scheduling pass: Slurm logs them with SlurmctldDebug=debug")
    first, last = int(jobs["submit_s"].min()), int(jobs[["submit_s", "end_s"]].to_numpy().max())
    if not any(first - LEAD_S <= when <= last for when in seen["turn"]):
        raise InputError(f"{path}: shows no scheduling pass in the time of the accounting: do the two cover the same time?")
    origin, (every, interval, period) = origin_of(jobs), clock_settings(site)
    whole = jobs["submit_s"].to_numpy(np.float64)
    parts = np.array([submitted.get(group, second + 0.5) for group, second in zip(jobs["group"], whole, strict=True)]) - whole
    turns = np.unique(np.array(seen["turn"]) - origin)
    at_turns = _at_turns(turns, site.known_release >= WHOLE_SECONDS)
    turns, direct = turns[at_turns], turns[~at_turns]
    cycles = np.unique(np.array(seen["cycle"] or [float(origin)]) - origin)
    several = set(jobs.loc[jobs["partition"].str.contains(","), "job_id"].astype(str))
    lone = [job for job in sorted([*first_shown, *shown], key=lambda job: job[1]) if job[0] not in several and job[2] > 0]
    begins = [when for when in seen["decay"] if when <= first] or seen["decay"][:1]  # slurmctld may have begun anew since
    decay, spread = (begins[-1], 0.0) if begins else _computed([*lone, *_of_users(first_shown, site, jobs)], period)
    decay -= origin
    if begins and site.known_release >= THREADS_TOGETHER:
        both = cycles[cycles > decay + interval][:1] - interval
        decay = max([decay, *both[both < decay + 1].tolist()])
    start = float(whole.min()) - origin
    full = next((when - origin for when in seen["full"]), start) - start
    full -= every * max(-(-full // every), 0)
    turned = max((when - start for when in turns if when < start + parts[0]), default=full)
    seconds = np.array([runtimes.get(str(job), np.nan) for job in jobs["job_id"]])
    of_start = {(run.job, int(run.when - late_s)): run for run in runs for late_s in (_TICK_S, 0.0)}
    shown_runs = [of_start.get(key) for key in zip(jobs["job_id"].astype(str), jobs["start_s"], strict=True)]
    starts_s = np.array([np.nan if run is None else run.when - origin for run in shown_runs])
    ends = {run: end_s + 0.5 for run, end_s in zip(shown_runs, jobs["end_s"], strict=True) if run is not None}
    ends |= ended
    ends_s = np.array([np.nan if run is None else ended.get(run, np.nan) - origin for run in shown_runs])
    poll = decay + FIRST_POLL_S
    parts = np.clip(parts, 0.0, 1.5)
    answers = _answers(runs, ends, answered_ms(site) / 1000)
    answers_s = np.array([answers.get(str(job), np.nan) for job in jobs["job_id"]])
    return Phases(
        float(turns[0]), float(cycles[0]), decay % period, parts, _turn_length(turns), poll, full, turned, seconds, spread, cycles,
        turns, direct, answers_s=answers_s, starts_s=starts_s, ends_s=ends_s,
    )  # fmt: skip


def _answers(runs: list[_Run], ends: dict[_Run, float], usual_s: float) -> dict[str, float]:
    """Return how long the nodes of some ended jobs were COMPLETING at most, in seconds, by job.

    A pass takes no such node: a job whose node a pass took sooner than usual had answered by then. An end that the log
    lacks is in the middle of its second in the accounting.
    """
    taken: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.by_pass:
            for node in expand_nodes(run.nodes):
                taken[node].append(run.when)
    answers = {}
    for run in runs:
        end = ends.get(run, np.inf)
        after = [taken[node][bisect_left(taken[node], end) :][:1] for node in expand_nodes(run.nodes)]
        first = min((when for times in after for when in times), default=np.inf)
        if first - end < usual_s:
            answers[run.job] = max(first - end - _MS, 0.0)
    return answers


def _of_users(submitted: list[tuple[str, float, int]], site: Site, jobs: pd.DataFrame) -> list[tuple[str, float, int]]:
    """Return what the first priorities of jobs show of their users' fair share.

    A job is submitted without age: its priority less the fixed part is what fair share adds, which only a computation
    changes.
    """
    fixed, of_users = Fixed(site), list[tuple[str, float, int]]()
    rows = {str(row.group): row for row in jobs.itertuples(index=False)}
    for job, when, priority in submitted:
        row = rows.get(job)
        if row is not None and priority > 0 and row.qos in site.qos and row.partition in site.partitions and not row.other_qos:
            share = priority - fixed.of(row, site.partitions[row.partition])
            of_users.append((f"{row.account} {row.user}", when, round(share)))
    return of_users


def _computed(shown: list[tuple[str, float, int]], period: int) -> tuple[float, float]:
    """Return a time at the earliest at which priorities were computed, in Unix seconds, and how much later it may be.

    ``shown`` has jobs' priorities and when the log shows them, in order. Between two that differ a computation lies: it
    lies where most of these pairs have one. Nothing is known without such a pair: then it may be anywhere in the
    ``period``.
    """
    last: dict[str, tuple[float, int]] = {}
    pairs = []
    for job, when, priority in shown:
        before, old = last.get(job, (when, priority))
        if abs(old - priority) > 1 and when - before < period:  # parts of priorities are rounded
            pairs.append((before, when))
        last[job] = when, priority
    if not pairs:
        return 0.0, float(period)
    first, second = np.array(pairs).T
    phases = np.arange(0.0, period, _STEP_S)
    held = [np.count_nonzero((second - phase) // period > (first - phase) // period) for phase in phases]
    best = phases[np.array(held) == max(held)]
    # the range may go over the period's end: it begins behind the widest gap
    gaps = np.diff(best, append=best[0] + period)
    low = best[(int(np.argmax(gaps)) + 1) % len(best)]
    return float(low) - _STEP_S, float(period - gaps.max() + 2 * _STEP_S)


def _at_turns(seen: np.ndarray, on_seconds: bool) -> np.ndarray:
    """Return which of the passes ``seen`` in the log are at turns of the background loop, bool [passes].

    The others are direct passes. A turn is ``on_seconds``, or follows another after a second and some milliseconds of
    work: then of all sequences of passes that may all be at turns the longest is taken.
    """
    if on_seconds:
        return np.abs(seen - np.round(seen)) < _LATEST_S
    length, before = np.ones(len(seen), np.int64), np.full(len(seen), -1)
    for at in range(1, len(seen)):
        first = max(at - _LOOK_BACK, 0)
        since = seen[at] - seen[first:at]
        turns = np.round(since - since * _WORK_S / 2)
        late_s = since - turns
        may = (turns > 0) & (late_s > -_EARLY_S) & (late_s < _EARLY_S + _WORK_S * turns)
        if may.any():
            best = int(np.argmax(np.where(may, length[first:at] * 1e3 - late_s, -np.inf)))
            length[at], before[at] = length[first + best] + 1, first + best
    at_turns, at = np.zeros(len(seen), bool), int(np.argmax(length))
    while at >= 0:
        at_turns[at], at = True, int(before[at])
    return at_turns


def _turn_length(turns: np.ndarray) -> float:
    """Return the usual time between turns of the background loop, from passes at some of them."""
    apart = np.diff(turns)
    return float(np.median(apart / np.maximum(np.round(apart), 1))) if len(apart) else 1.0
