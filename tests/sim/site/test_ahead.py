"""Slurm's scheduler run ahead from the midst of a replay, against how that replay went on."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from pipelines.readers.slurm.jobs import read_slurm_jobs
from pipelines.readers.slurm.site import load_site
from pipelines.studies.parity import read_site_jobs
from sim.kernel.scratch import Scratch
from sim.kernel.state import EVENTS, NEVER
from sim.site.ahead import lead, starts_ahead
from sim.site.replay import site_loop
from sim.slurm import slots
from sim.slurm.begin import begin
from sim.slurm.files import read_site
from sim.slurm.phases import LAUNCH_MS, LEAD_S, Phases, draw_phases, origin_of
from sim.slurm.site import Site
from sim.slurm.state import COMPLETING, RUNS, Slurm
from tests.conftest import SHARED, needs_shared
from tests.sim.slurm.test_replay import jobs_of

RUNS_OF = {"micro-1": "micro", "pair-A": "pair", "pool-1": "pool"}
GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"


class Cut(NamedTuple):
    """A replay cut at a moment: what was known of its jobs then, those still to come, and how it went on."""

    jobs: pd.DataFrame
    arrivals: pd.DataFrame
    now_s: float
    phases: Phases
    slurm: Slurm
    start_s: np.ndarray


def cut(site: Site, table: pd.DataFrame, phases: Phases, events: int) -> Cut:
    """Replay ``table``, in order of submission by ``phases``, and keep what was after so many events."""
    origin, first = origin_of(table), int(table["submit_s"].min())
    submit = np.round((table["submit_s"].to_numpy(np.float64) - origin + phases.parts_s) * 1000).astype(np.int64)
    runtime = table["runtime_s"].to_numpy(np.int64) * 1000 + LAUNCH_MS
    slurm, now = begin(site, table, phases), 0
    loop = site_loop(slurm, submit, runtime, site.procs, Scratch())

    def go_on(many: int) -> int:
        loop.work.state.counters[EVENTS] = many
        return int(loop.run(now))

    now = go_on(events)
    then = deepcopy(slurm)
    state, numbers, moment = then.now, then.numbers, now
    names = np.array([node.name for node in site.nodes], object)
    nodes = [",".join(names[state.node[a : a + held]]) for a, held in zip(state.nodes, state.held, strict=False)]
    snapshot = table.assign(
        start_s=np.where(state.start_ms >= 0, origin + state.start_ms / 1000, np.nan),
        end_s=np.where(state.phase >= COMPLETING, origin + state.end_ms / 1000, np.nan),
        nodes=nodes,
        accrue_s=np.where(state.accrues >= 0, origin + state.accrues, np.nan),
    )
    there, half_ms = submit <= moment, 0.0005
    last = phases._replace(
        cycle_s=numbers[slots.CYCLE] / 1000 + half_ms,
        full_s=numbers[slots.LAST_FULL] / 1000 + origin - first,
        asked_s=numbers[slots.LAST_ASKED] / 1000 + origin - first,
    )
    now = go_on(NEVER)
    start = np.where(slurm.now.first_ms >= 0, slurm.now.first_ms / 1000 + origin, np.inf)
    return Cut(snapshot[there], table[~there], origin + moment / 1000, last, then, start[there])


def in_order(site: Site, table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, Phases]:
    """Return jobs in order of submission by the phases of a seed, and these."""
    phases = draw_phases(site, len(table), seed)
    order = np.argsort(table["submit_s"].to_numpy() + phases.parts_s, kind="stable")
    return table.iloc[order].reset_index(drop=True), phases._replace(parts_s=phases.parts_s[order])


def recorded(run: str) -> tuple[Site, pd.DataFrame]:
    """Return a recorded run and its site."""
    if run in RUNS_OF:
        site = load_site(SHARED / "slurm" / "sites" / RUNS_OF[run])
        return site, read_slurm_jobs(SHARED / "slurm" / f"{run}.sacct.txt", site).table
    site, jobs = read_site_jobs(GOLDEN / f"{run}.txt", GOLDEN / run, "UTC")
    return site, jobs.table


def gone_on(site: Site, at: Cut) -> tuple[np.ndarray, np.ndarray]:
    """Return how long waiting jobs waited from the cut on in the replay, and as run ahead with what then came true."""
    usage_s = float(pd.concat([at.jobs, at.arrivals])["submit_s"].min()) - LEAD_S
    true = at.jobs["runtime_s"].to_numpy(np.float64)[None, :]
    waits = starts_ahead(site, at.jobs, at.now_s, true, at.phases, at.arrivals, usage_s)
    return at.start_s[at.jobs["start_s"].isna()] - at.now_s, waits[0]


SITE = """\
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,bf_resolution=1
SelectTypeParameters=CR_CPU
NodeName=n[1-2] CPUs=8
PartitionName=low Nodes=n1
PartitionName=high Nodes=n1 PriorityTier=5
PartitionName=other Nodes=n2
"""
NOW_S = 1_000_100


def asked(first: int, *rows: dict[str, object]) -> pd.DataFrame:
    """Return jobs of eight processors, numbered from ``first``, that wait since the second of their number."""
    usual = {"user": "u", "account": "a", "limit_s": 600, "runtime_s": 60, "start_s": np.nan, "nodes": ""}
    return jobs_of(*(usual | row for row in rows), first=first)


def test_a_waiting_job_starts_when_the_scenario_ends_the_running_one() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    jobs = asked(1, {"start_s": 1_000_010, "nodes": "n1"}, {}, {"partition": "other", "start_s": 1_000_010, "nodes": "n2"}, {})
    runtimes = np.array([[150.0, 60, 500, 60], [400, 200, 500, 60]])
    waits = starts_ahead(site, jobs, NOW_S, runtimes)
    np.testing.assert_allclose(waits, [[60, 120], [310, 510]], atol=5)
    assert (waits >= [[60, 120], [310, 510]]).all()
    assert np.array_equal(waits, starts_ahead(site, jobs, NOW_S, runtimes))


def test_scenarios_side_by_side_are_those_alone_and_end_with_the_jobs_that_are_asked_about() -> None:
    site, random = read_site({"slurm.conf": SITE}, "site"), np.random.default_rng(2)
    kinds = [{"partition": str(random.choice(["low", "high", "other"])), "cpus": int(random.integers(1, 9))} for _ in range(30)]
    jobs = asked(1, {"start_s": 1_000_010, "nodes": "n1"}, *kinds)
    runtimes = random.integers(100, 600, (5, len(jobs))).astype(float)
    waits = starts_ahead(site, jobs, NOW_S, runtimes)
    assert len(np.unique(waits, axis=0)) == 5
    for row in range(5):
        np.testing.assert_array_equal(starts_ahead(site, jobs, NOW_S, runtimes[row : row + 1], row)[0], waits[row])
    some = np.isin(np.arange(31), [4, 18])
    np.testing.assert_array_equal(starts_ahead(site, jobs.assign(asked=some), NOW_S, runtimes), waits[:, some[1:]])


def test_a_job_to_come_goes_ahead_in_the_scenarios_of_its_draw() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    jobs = asked(1, {"start_s": 1_000_010, "nodes": "n1"}, {})
    more = asked(120, {"partition": "high", "runtime_s": 200})
    runtimes = np.full((2, 2), 150.0)
    np.testing.assert_allclose(starts_ahead(site, jobs, NOW_S, runtimes, 0, more)[:, 0], [260, 260], atol=5)
    waits = starts_ahead(
        site, jobs, NOW_S, runtimes, 0, pd.concat([more.assign(draw=1), asked(130, {"partition": "other", "draw": 0})])
    )
    np.testing.assert_allclose(waits[:, 0], [60, 260], atol=5)


def test_what_cannot_start_or_starts_later_than_is_asked_is_never() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    jobs = asked(1, {"start_s": 1_000_010, "nodes": "n1"}, {}, {"cpus": 9, "partition": "other"}, {"cancel_s": 1_000_050})
    runtimes = np.full((1, 4), 150.0)
    waits = starts_ahead(site, jobs, NOW_S, runtimes)
    assert waits.shape == (1, 2)
    assert np.isfinite(waits[0, 0])
    assert np.isinf(waits[0, 1])
    assert np.isinf(starts_ahead(site, jobs, NOW_S, runtimes, within_s=30)).all()


def test_the_end_of_a_job_that_never_started_changes_nothing() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    jobs = asked(1, {"start_s": 1_000_010, "nodes": "n1"}, {}, {"cancel_s": 1_000_050}, {})
    runtimes = np.full((2, 4), 150.0)
    ended = jobs.assign(end_s=[np.nan, np.nan, 1_000_050, np.nan])
    np.testing.assert_array_equal(starts_ahead(site, ended, NOW_S, runtimes), starts_ahead(site, jobs, NOW_S, runtimes))


def test_jobs_that_wait_where_none_has_started_yet_start_at_once() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    jobs = asked(1, {}).assign(submit_s=NOW_S - 1)
    for now_s in (NOW_S, NOW_S + 30 * 86_400):
        starts = starts_ahead(site, jobs, now_s, np.full((4, 1), 150.0))
        assert (starts < 120).all(), "the first pass starts it, whatever the time since its submission"


def test_usage_of_the_moment_orders_users_who_wait() -> None:
    conf = SITE + "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\n"
    dump = "Cluster - 'c':DefaultQOS='normal'\nParent - 'root'\nAccount - 'a':Fairshare=1\nParent - 'a'\n"
    dump += "User - 'u':DefaultAccount='a':Fairshare=1\nUser - 'v':DefaultAccount='a':Fairshare=1\n"
    jobs = asked(1, {"start_s": 1_000_010, "nodes": "n1"}, {"user": "u"}, {"user": "v"})
    runtimes = np.full((1, 3), 150.0)
    for heavy, order in (("u", [1, 0]), ("v", [0, 1])):
        usage = {each: "100000" if each == heavy else "0" for each in "uv"}
        sshare = "Account|User|RawUsage\nroot||100000\n a||100000\n" + "".join(f"  a|{each}|{usage[each]}\n" for each in "uv")
        site = read_site({"slurm.conf": conf, "accounts.dump": dump, "sshare.txt": sshare}, "site")
        assert np.argsort(starts_ahead(site, jobs, NOW_S, runtimes)[0]).tolist() == order


def test_tables_that_lack_what_is_needed_are_refused() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    with pytest.raises(InputError, match="no column start_s"):
        starts_ahead(site, asked(1, {}).drop(columns="start_s"), NOW_S, np.ones((1, 1)))
    with pytest.raises(InputError, match=r"\(scenarios, 1\)"):
        starts_ahead(site, asked(1, {}), NOW_S, np.ones((1, 2)))


def assert_goes_on(site: Site, jobs: pd.DataFrame, seed: int) -> None:
    """Cut a replay at a dozen moments: what waits then must start as it did, to the millisecond."""
    table, phases = in_order(site, jobs, seed)
    compared = 0
    for events in range(50, 1_500, 125):
        was, waits = gone_on(site, cut(site, table, phases, events))
        np.testing.assert_allclose(waits, was, atol=0.0015)
        compared += len(was)
    assert compared > 30


@pytest.mark.slow
@pytest.mark.parametrize("run", ["outages-A", *(pytest.param(run, marks=needs_shared) for run in RUNS_OF)])
def test_a_recorded_run_replayed_and_cut_in_its_midst_goes_on_as_it_did(run: str) -> None:
    assert_goes_on(*recorded(run), 7)


def held(state: Slurm) -> dict[int, list[tuple[int, int]]]:
    """Return of each running job its nodes, with how many processors it takes there."""
    now = state.now
    rows = {int(job): slice(now.nodes[job], now.nodes[job] + now.held[job]) for job in np.flatnonzero(now.phase == RUNS)}
    return {job: list(zip(now.node[at].tolist(), now.taken[at].tolist(), strict=True)) for job, at in rows.items()}


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS_OF)
def test_at_the_moment_the_recorded_jobs_run_on_their_nodes_and_no_others(run: str) -> None:
    site, jobs = recorded(run)
    table, phases = in_order(site, jobs, 3)
    at = cut(site, table, phases, 250)
    moment = lead(site, pd.concat([at.jobs, at.arrivals]), len(at.jobs), at.now_s, at.phases, at.now_s)
    assert len(held(at.slurm)) > 3
    assert held(moment.slurm) == held(at.slurm)
    for name in ("cpus", "memory", "gpus", "used", "running", "limit_end"):
        rows = np.flatnonzero(at.slurm.now.phase == RUNS) if name == "limit_end" else slice(None)
        size = len(held(at.slurm)) if name == "running" else None
        np.testing.assert_array_equal(getattr(moment.slurm.now, name)[rows][:size], getattr(at.slurm.now, name)[rows][:size])


@needs_shared
@pytest.mark.slow
def test_jobs_alone_that_are_there_run_on_their_nodes_too() -> None:
    """Accounting has whole seconds, a queue has no ended jobs, and neither tells processors by node."""
    site, jobs = recorded("micro-1")
    at = cut(site, *in_order(site, jobs, 3), 900)
    there = at.jobs[at.jobs["end_s"].isna()].assign(start_s=np.floor(at.jobs["start_s"])).reset_index(drop=True)
    moment = lead(site, there, len(there), at.now_s, draw_phases(site, len(there), 1), None)
    names = np.array([node.name for node in site.nodes])
    placed = {row: {names[node] for node, _ in nodes} for row, nodes in held(moment.slurm).items()}
    assert len(placed) > 3
    assert placed == {row: set(nodes.split(",")) for row, nodes in there["nodes"].items() if nodes}
