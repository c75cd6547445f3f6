"""Other schedulers on a site's nodes: as on a pool where there is one node, and bound to partitions, memory and eligibility."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from features.errors import InputError
from sim import simulate
from sim.inputs.predicted_limits import as_table
from sim.site.change import change, site_change
from sim.site.other_rules import on_nodes, started
from sim.site.what_if import Replays
from sim.slurm.files import read_site
from tests.sim.site.test_what_if import jobs, site

POOL = read_site({"slurm.conf": "NodeName=n1 CPUs=8 RealMemory=100\nPartitionName=all Nodes=ALL\n"}, "pool")


@pytest.mark.slow
@pytest.mark.parametrize(("scheduler", "predictor"), [("EASY", "requested"), ("JustBF", "requested"), ("EASY-SJBF", "clairvoyant")])
def test_one_node_is_a_pool(scheduler: str, predictor: str) -> None:
    of = jobs(80)
    pool = simulate(as_table(of), procs=8, scheduler=scheduler, predictor=predictor)
    assert (started(POOL, of, scheduler, predictor, 3) == pool.jobs["start_s"]).all()
    assert (pool.jobs["start_s"] > pool.jobs["submit_s"]).any()


def test_jobs_ask_for_their_partition_their_memory_and_their_nodes() -> None:
    here = replace(site(), settings={**site().settings, "selecttypeparameters": "CR_CPU_Memory"})
    of = jobs(4).assign(
        partition=["long", "all", "long,all", "long"], cpus=[5, 1, 8, 2], memory_node=[0, 5000, 0, 3000], min_nodes=[1, 1, 1, 2]
    )
    machine, table = on_nodes(here, of)
    assert (machine.procs, machine.clusters[0].count) == (8, 4)
    assert machine.holds(table).tolist() == [False, False, True, True]  # 4 processors in long, 4000 MB a node
    start = started(here, of, "EASY", "requested", 0)
    assert np.isnan(start).tolist() == [True, True, False, False]


def test_a_job_that_ran_on_past_its_limit_until_slurm_looked_ends_at_it() -> None:
    of = jobs(3).assign(runtime_s=[30, 200, 70], limit_s=[60, 60, 120])
    assert on_nodes(site(), of)[1]["runtime_s"].tolist() == [30, 60, 70]


def test_no_job_starts_before_it_is_eligible() -> None:
    of = jobs(40)
    of = of.assign(eligible_s=np.where(np.arange(40) % 5 == 0, of["submit_s"] + 5000, -1))
    start = started(POOL, of, "EASY", "requested", 0)
    assert (start >= np.maximum(of["submit_s"], of["eligible_s"])).all()
    assert (start >= of["submit_s"] + 5000)[of["eligible_s"] > 0].all()


def test_another_scheduler_is_a_candidate_that_slurm_does_not_have() -> None:
    changed = change(site_change("other", rule={"scheduler": "Harm", "predictor": "clairvoyant"}), site(), jobs())
    assert changed is not None
    assert changed.lines == ("# no setting: Slurm has no Harm on clairvoyant times",)
    assert (Replays([changed], 60)([0, 1])[2] >= jobs()["submit_s"].min() - 60).all()
    with pytest.raises(InputError, match="Harn"):
        change(site_change("other", rule={"scheduler": "Harn"}), site(), jobs())


@pytest.mark.slow
def test_a_site_factor_prefers_jobs_that_are_predicted_to_be_short() -> None:
    changed = change(site_change("short", site_factor="500"), site(), jobs().assign(start_s=-1, end_s=-1))
    assert changed is not None
    nice, limit = changed.jobs["nice"], jobs()["limit_s"]  # no job has ended, so the limit is the prediction
    assert (nice == -np.rint(500 * (25 - np.log2(limit)))).all()
    assert "job.site_factor = math.floor(500 * (25 - " in changed.lines[-1]
