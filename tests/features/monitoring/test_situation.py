"""The situation of a start: what is not known is missing, and neighbours are the jobs that run then."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.monitoring.samplers import SITUATION_FEATURES
from features.monitoring.situation import MonitoredMachine, PlacedJob, situations

TYPES = pd.DataFrame({"application": ["A", "B"], "type": ["io", "network"], "read_gb_s": 1.0, "write_gb_s": 0.5, "sent_gb_s": 2.0})
MACHINE = MonitoredMachine.of(pd.DataFrame({"node": ["a1", "a2", "b1", "b2"], "leaf": ["a", "a", "b", "b"]}), TYPES)


def situation_of(*jobs: PlacedJob, machine: MonitoredMachine = MACHINE) -> dict[str, float]:
    """What is known of the last job's start."""
    table = situations(jobs, machine)
    assert tuple(table.columns) == SITUATION_FEATURES
    return table.iloc[-1].to_dict()


def test_a_start_across_leaves_beside_one_that_crosses_too() -> None:
    situation = situation_of(PlacedJob("1", "B", ("a1", "b1"), 0, 100), PlacedJob("2", "A", ("a2", "b2"), 50))
    assert situation == {
        "job.nodes": 2,
        "job.leaves": 2,
        "job.crossing": 0.5,
        **{"running.compute": 0, "running.network": 0.5, "running.io": 0},
        **{"beside.compute": 0, "beside.network": 0.5, "beside.io": 0},
        "offered.io": 6.0,
        "offered.network": 2.0,
    }


def test_of_the_same_second_the_one_listed_before_runs_and_what_ended_does_not() -> None:
    ended, before, later = (
        PlacedJob("1", "A", ("a1",), 0, 50),
        PlacedJob("2", "A", ("b1",), 50, 9),
        PlacedJob("3", "A", ("b2",), 50, 9),
    )
    table = situations([later, ended, before], MACHINE)
    assert table["running.io"].tolist() == [0, 0, 0.25]
    assert table["beside.io"].tolist() == [0, 0, 0.5]


def test_what_a_site_does_not_state_is_missing() -> None:
    unknown = situation_of(PlacedJob("1", "HPL", ("a1",), 0), PlacedJob("2", "A", ("a2",), 1))
    assert np.isnan(unknown["offered.io"])  # of HPL no rates are known, and it has no type
    assert (unknown["running.io"], unknown["offered.network"]) == (0, 0)
    elsewhere = situation_of(PlacedJob("1", "A", ("a1",), 0), PlacedJob("2", "A", ("a2", "c9"), 1))
    missing = {name for name, value in elsewhere.items() if np.isnan(value)}
    assert missing == {"job.leaves", "job.crossing", "beside.io", "offered.network"}
    plain = MonitoredMachine.of(pd.DataFrame({"node": ["a1"], "leaf": ["a"]}), TYPES[["application", "type"]])
    assert np.isnan(situation_of(PlacedJob("1", "A", ("a1",), 0), machine=plain)["offered.io"])
