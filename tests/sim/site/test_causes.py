"""What may explain a record, by traces in it, and which exports would tell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.site.causes import LOG, NODES, QUEUES, USAGE, causes, exports
from sim.site.parity import Open
from sim.slurm.files import read_site
from tests.sim.slurm.test_replay import CONF, jobs_of

WEIGHTS = "PriorityType=priority/multifactor\nPriorityWeightAge=100\nPriorityWeightFairshare=1000\n"
SSHARE = "Account|User|RawUsage\nroot||0\n"


def causes_of(conf: str, jobs: pd.DataFrame, recorded_s: list[float], logged: bool = False, **texts: str) -> pd.DataFrame:
    """Return the causes where six replays wait 90 to 110 s."""
    site = read_site({"slurm.conf": conf, **{f"{name}.txt": text for name, text in texts.items()}}, "site")
    waits = np.tile(np.array([90.0, 110, 95, 105, 100, 100])[:, None], len(jobs))
    started = jobs["submit_s"] + np.array(recorded_s, np.int64)
    jobs = jobs.assign(start_s=started, end_s=started + jobs["runtime_s"], nodes="n1", held_s=-1, priority=jobs.get("priority", 1))
    open_waits = Open(waits, np.array(recorded_s))
    return causes(site, jobs, open_waits, logged, {}).set_index("cause")


def test_waits_inside_their_range_are_explained_by_phases_alone_and_a_log_tells_these() -> None:
    table = causes_of(CONF, jobs_of({}, {}), [92.0, 110.0])
    assert table.index.tolist() == ["phases of Slurm's clocks"]
    assert table.iloc[0].tolist() == [2, 18.0, LOG]
    assert causes_of(CONF, jobs_of({}, {}), [92.0, 110.0], logged=True).empty


def test_a_priority_that_no_factor_gives_was_changed_by_hand() -> None:
    jobs = jobs_of({"priority": 5000}, {"priority": 900}, {"priority": 900, "requeues": True})
    table = causes_of(WEIGHTS + CONF, jobs, [400.0, 100.0, 150.0], logged=True, sshare=SSHARE)
    assert table.loc["priorities changed by hand", "jobs"] == 1
    assert 250 < table.loc["priorities changed by hand", "explains_s"] < 300
    assert table.loc["requeues, and when they may start again", "export"] == LOG
    assert table.loc["priorities changed by hand", "export"] == QUEUES


def test_unknown_usage_explains_less_the_later_and_free_nodes_are_a_trace_of_outages() -> None:
    conf = "PriorityDecayHalfLife=1-0\n" + WEIGHTS + CONF
    jobs = jobs_of({"cpus": 1}, {"cpus": 1}).assign(submit_s=[1_000_000, 1_086_400])
    table = causes_of(conf, jobs, [400.0, 400.0], logged=True)
    beyond_s = table.loc["nodes that were not there", "explains_s"]
    assert table.loc["usage before the accounting", "explains_s"] == pytest.approx(0.75 * beyond_s)
    assert exports(table.reset_index()) == [NODES, USAGE]
    assert "usage before the accounting" not in causes_of(conf, jobs, [400.0, 400.0], logged=True, sshare=SSHARE).index
