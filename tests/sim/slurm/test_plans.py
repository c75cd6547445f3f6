"""Plans of backfill, cycle by cycle, against those that a real slurmctld wrote to its log.

The model is led along the record: jobs are submitted, start and end when the log says so, and each cycle is asked what it would plan.
Compared are the sets of nodes that plans hold in each minute.
"""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from features.node_list import expand_nodes
from pipelines.readers.slurm.slurmctld_log import read_phases
from pipelines.studies.parity import read_site_jobs
from sim.slurm import recorded, slots
from sim.slurm.begin import begin
from sim.slurm.choice import holds
from sim.slurm.events import follow_events
from sim.slurm.nodesets import as_set
from sim.slurm.phases import clock_settings, origin_of
from sim.slurm.state import DOWN, UP, Slurm

GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"
LINE = re.compile(r"\[(\S+)\] (.*)")
CYCLE = re.compile(r"sched/backfill: _attempt_backfill: beginning")
SUBMIT = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) ")
START = re.compile(r"(?:sched: Allocate|_start_job: Started) JobId=(\d+(?:_\d+)?)\S* .*?(?:NodeList=| on )(\S+)")
END = re.compile(r"_job_complete: JobId=(\d+(?:_\d+)?)\S* done")
PLAN = re.compile(r"JobId=\d+\S* to start at (\S+), end at (\S+) on nodes (\S+)")
EQUAL = {"tiers-A": 0.96, "tiers-B": 0.98, "limits-B": 0.94, "outages-A": 1.0}
"""The share of cycles of which each plan is the model's, at least, where the log holds all that changes the state."""
Minutes = set[tuple[str, int]]


def minutes(nodes: str, first: int, last: int) -> Minutes:
    """Return each (node, minute) that a plan holds."""
    return {(node, minute) for node in expand_nodes(nodes) for minute in range(first // 60, last // 60)}


def planned_now(slurm: Slurm, names: list[str], up: np.ndarray) -> Minutes:
    """Return what the plans of the last cycle hold."""
    plans, planned = slurm.plans, set[tuple[str, int]]()
    for k in range(slurm.numbers[slots.INTERVALS]):
        for at, name in enumerate(names):
            if holds(up, at) and not holds(plans.free[plans.row[k]], at):
                planned |= {(name, minute) for minute in range(plans.begin[k] // 60, plans.end[k] // 60)}
    return planned


@pytest.mark.slow
@pytest.mark.parametrize("run", EQUAL)
def test_plans_in_the_recorded_state_are_those_of_the_log(run: str) -> None:
    site, jobs = read_site_jobs(GOLDEN / f"{run}.txt", GOLDEN / run, "UTC")
    table, names = jobs.table, [node.name for node in site.nodes]
    phases = read_phases(GOLDEN / f"{run}.log.gz", site, table)
    origin, row_of = origin_of(table), {job: row for row, job in enumerate(table["job_id"])}
    slurm = begin(site, table, phases)
    events: list[tuple[float, int, int, str]] = []
    cycles: dict[float, Minutes] = {}
    ended, cycle = set[int](), 0.0

    def seconds(stamp: str) -> float:
        return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp() - origin

    with gzip.open(GOLDEN / f"{run}.log.gz", "rt") as log:
        for line in filter(None, map(LINE.match, log)):
            when, text = seconds(line[1]), line[2]
            if CYCLE.search(text):
                cycle = when
                cycles[cycle] = set()
                events.append((when, recorded.CYCLE, 0, ""))
            elif event := PLAN.search(text):
                cycles[cycle] |= minutes(event[3], int(seconds(event[1])), int(seconds(event[2])))
            elif event := SUBMIT.search(text):
                events += [(when, recorded.SUBMIT, int(row), "") for row in np.flatnonzero(table["group"] == int(event[1]))]
            elif (event := START.search(text)) and event[1] in row_of:
                events.append((when, recorded.START, row_of[event[1]], event[2]))
            elif (event := END.search(text)) and event[1] in row_of:
                ended.add(row_of[event[1]])
                events.append((when, recorded.END, row_of[event[1]], ""))
    events += [
        (end - origin + 0.9, recorded.END, row, "") for row, end in enumerate(table["end_s"]) if end > 0 and row not in ended
    ]
    period = clock_settings(site)[2]
    first = phases.decay_s + (int(table["submit_s"].min()) - origin - phases.decay_s) // period * period - period
    events += [(when, recorded.DECAY, 0, "") for when in np.arange(first, table["end_s"].max() - origin, period)]
    events += [(ms / 1000, -1 - up, node, "") for ms, node, up in zip(*slurm.outages[:3], strict=True) if node >= 0 and up != DOWN]
    state = [*slurm.now, slurm.numbers, slurm.tree.usage, slurm.tree.factor, slurm.ask.fixed, slurm.ask.counted, slurm.ask.amount]
    equal, asked = 0, 0
    for when, kind, row, nodes in sorted(events):
        now = int(when * 1000)
        if kind < 0:  # a node is drained, or back
            up = as_set([row], len(names))
            slurm.now.up[:] = slurm.now.up | up if -1 - kind == UP else slurm.now.up & ~up
        elif kind == recorded.CYCLE and cycles[when]:
            kept = [array.copy() for array in state]
            follow_events([(now, recorded.CYCLE, 0)], slurm)
            equal += planned_now(slurm, names, slurm.now.up) == cycles[when]
            asked += 1
            stamp = slurm.numbers[slots.STAMP]
            for array, old in zip(state[:-3], kept[:-3], strict=True):
                array[:] = old
            slurm.numbers[slots.STAMP] = stamp
        elif kind != recorded.CYCLE:
            held = np.array([names.index(name) for name in expand_nodes(nodes)], np.int64)
            first = np.repeat([0, len(held)], [row + 1, len(table) - row])
            together = [(now, kind, row)] + [(now, recorded.CLEAR, row)] * (kind == recorded.END) + [(now, recorded.LOOK, 0)]
            follow_events(together, slurm, first, held)
    assert asked > 20
    assert equal >= EQUAL[run] * asked
