"""What was missing while jobs of a log waited, by hand; and the machines of the study."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.studies.recorded_room import by_outcome, log_of, on_all, seconds_of_waits, used
from benchmarks.studies.recorded_waits import (
    MACHINES,
    STEPS,
    lacking,
    peak_of_users,
    placements_beyond_memory,
    ranked,
    submitted_before,
)
from features.jobs.frames import jobs_from
from pipelines.ingest.machine_file import read_machine
from sim.machine.description import Cluster, Machine, Nodes

SITE = Machine("site", (Cluster("big", (Nodes(3, 8, 100),)), Cluster("small", (Nodes(2, 2, 10),))))
ROWS = [  # submit, wait, runtime, procs, memory, queue, and where it ran
    (0, 0, 100, 8, 10, "a", [7] * 8),
    (0, 0, 50, 4, 60, "a", [9] * 4),
    (0, 0, 200, 1, 1, "b", [3]),
    (10, 90, 100, 8, 1, "a", [7] * 8),  # no node with 8 free processors until 50 (node 9): 40 s without, 50 s with
    (20, 80, 50, 2, 80, "a", [9] * 2),  # its memory is free at 50
    (30, 5, 165, 1, 1, "b", [3]),  # room at once on both
]
LISTS = {number: nodes for number, (*_, nodes) in enumerate(ROWS, start=1)}
NAMES = ["submit_s", "wait_s", "runtime_s", "procs", "memory_kib", "queue"]


def jobs() -> pd.DataFrame:
    table = jobs_from(pd.DataFrame([row[:-1] for row in ROWS], columns=NAMES).assign(nodes=1, requested_s=1000, user="u"))
    return table.assign(overrun_s=0)


def test_nodes_are_those_of_the_log() -> None:
    machine, order = used(SITE, LISTS)
    assert [cluster.count for cluster in machine.clusters] == [2, 1]
    assert order == [7, 9, 3]


def test_seconds_without_room_are_those_in_which_no_node_was_free_enough() -> None:
    machine, order = used(SITE, LISTS)
    table = jobs()
    log = log_of(table, LISTS, order)
    spans = seconds_of_waits(machine, table, log)
    assert spans.without.tolist() == [0, 0, 0, 40, 30, 0]
    assert spans.kept.tolist() == [0, 0, 0, 50, 0, 0]  # the user held 14 processors at most, and from 50 to 100 10 without this job
    # the fourth job takes the eight processors from 50 on
    assert seconds_of_waits(machine, table, log, together=np.arange(6)).without.tolist() == [0, 0, 0, 40, 80, 0]
    # the fifth before it takes two of the eight from 50 on
    assert seconds_of_waits(machine, table, log, together=np.array([0, 1, 2, 5, 4, 3])).without.tolist() == [0, 0, 0, 90, 30, 0]
    # without idle nodes: node 9 runs nothing from 50 on
    assert seconds_of_waits(machine, table, log, idle=False).without.tolist() == [0, 0, 0, 90, 80, 0]

    alone = table.assign(queue=pd.Categorical(["a", "a", "b", "a", "a", "c"]))
    assert seconds_of_waits(machine, alone, log, ("queue",), in_jobs=True).kept.tolist() == [0, 0, 0, 0, 0, 0]
    assert seconds_of_waits(machine, table, log, ("user",), in_jobs=True).kept.sum() == 0
    shares = [round(share * 175) for share in lacking(machine, table, log).values()]
    assert shares == [40, 40, 40, 70, 70, 70, 170, 120]
    assert peak_of_users(table, log) == 14
    assert placements_beyond_memory(machine, table, log) == (0, 0)


def test_nodes_never_used_have_room_throughout() -> None:
    machine, order = used(SITE, LISTS)
    table = jobs()
    log = on_all(SITE, machine, log_of(table, LISTS, order))
    assert seconds_of_waits(SITE, table, log).without.tolist() == [0] * 6
    # the fourth job alone fits on node 3 of the three big ones until 50; then node 9 is free for the fifth
    assert seconds_of_waits(SITE, table, log, together=np.arange(6)).without.tolist() == [0, 0, 0, 0, 30, 0]


def test_jobs_of_a_user_in_the_seconds_before() -> None:
    assert submitted_before(jobs(), 15).tolist() == [0, 1, 2, 3, 1, 1]
    assert ranked(np.array([3, 1, 3, 2])).tolist() == [2, 0, 3, 1]


def test_by_outcome_a_class_runs_where_it_ever_ran() -> None:
    machine, order = used(SITE, LISTS)
    table = jobs()
    outcome, asking = by_outcome(machine, table, log_of(table, LISTS, order))
    assert outcome.could_hold(asking).tolist() == [1, 1, 2, 1, 1, 2]
    assert np.array_equal(machine.could_hold(table), [1, 1, 3, 1, 1, 3])


def test_the_machines_of_the_study_are_there() -> None:
    machines = {file: read_machine(MACHINES / f"{file}.toml") for file in STEPS.values() if file}
    assert {file: machine.name for file, machine in machines.items()} == {file: file for file in machines}
    assert {machine.procs for machine in machines.values()} == {2176, 18 * 80 + 26 * 12}
