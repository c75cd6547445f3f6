"""Replays of a site under Slurm's scheduler, against a prototype in plain Python."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from pipelines.readers.slurm.site import load_site
from sim.site.replay import replay
from sim.slurm.files import read_site
from sim.slurm.phases import ANSWER_MS, Phases, draw, draw_phases, origin_of
from sim.slurm.requests import COLUMNS
from sim.slurm.site import Site
from tests.conftest import SHARED, needs_shared

SLURM = SHARED / "slurm"


MENDED = {
    # backfill.c, _add_reservation: two neighbours with the same nodes free become one
    "if r[0] >= begin and r[1] <= end: r[2] &= ~nodes\n": """if r[0] >= begin and r[1] <= end: r[2] &= ~nodes
        first, after = (next((k for k, r in enumerate(space) if r[0] >= at), len(space)) for at in (begin, end))
        for k in range(max(first - 2, 0), min(after, len(space) - 1)):
            if space[k][2] == space[k + 1][2]: space[k][1] = space[k + 1][1]; del space[k + 1]; break
""",
    # priority_multifactor.c, _apply_new_usage: usage is charged in whole seconds
    "max(0.0, end - max(begin, job.start))": "max(0, int(end) - max(int(begin), int(job.start)))",
}
"""Where the model follows Slurm's sources more closely than the prototype: its code, and what it is to be."""


@pytest.fixture(scope="module")
def prototype() -> ModuleType:
    source = (SHARED / "reference" / "slurm_model.py").read_text()
    for old, new in MENDED.items():
        assert source.count(old) == 1
        source = source.replace(old, new)
    module = ModuleType("slurm_model")
    exec(compile(source, "slurm_model.py", "exec"), module.__dict__)
    return module


def mended(prototype: ModuleType) -> Any:
    """Return the prototype's controller with the groups of running jobs that Slurm removes from a plan.

    From cons_common/job_test.c, ``_will_run_test``: a group ends where the next running job, on whatever nodes, ends beyond its
    reach, or after 200 jobs; running jobs whose limits end together go by their place in the list of jobs, where the rest of an array
    gets a new one with each task that starts (job_mgr.c, ``job_array_split``).
    """

    class Mended(prototype.Slurmctld):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.rest: dict[int, tuple[float, int]] = {}

        def start(self, job: Any, got: Any, now: float, by: str) -> None:
            job.place = (job.submit, 0)
            if job.array is not None:
                job.place = self.rest.get(job.array, job.place)
                self.rest[job.array] = (now, len(self.running) + 1)
            super().start(job, got, now, by)

        def will_run(self, job: Any, mask: int, now: float) -> tuple[float | None, Any]:
            if got := self.pick(job, mask, self.cpus, self.mem, self.gpus):
                return int(now), got
            free = list(self.cpus), list(self.mem), list(self.gpus)
            window, barrier, removed, just, end = 30, 0, 0, False, 0
            for other in sorted(self.running.values(), key=lambda each: (each.limit_end, each.place)):
                if just and (other.limit_end > barrier + window or removed > 200):
                    if got := self.pick(job, mask, *free):
                        break
                    window, removed = 2 * window, 0
                    while other.limit_end > barrier + window:
                        window *= 2
                just = other.nodes & mask != 0
                if just:
                    end, removed = other.limit_end, removed + 1
                    barrier = barrier or end + 30 - end % 30
                    self.take(other, other.alloc, *free, -1)
            got = got or self.pick(job, mask, *free)
            return (end if end > int(now) else max(end + self.c.kill_wait, int(now) + 1)) if got else None, got

    return Mended


USUAL: dict[str, object] = {
    **dict.fromkeys(COLUMNS, 0),
    **dict.fromkeys(("user", "account", "qos"), "normal"),
    **dict.fromkeys(("features", "reservation", "after", "licenses"), ""),
    **dict.fromkeys(("task", "eligible_s", "cancel_s"), -1),
    **dict.fromkeys(("requeues", "killed", "exclusive"), False),
}
"""What a job asks for that asks for nothing."""


def asked_of(job: Any) -> dict[str, object]:
    """Return a job of the prototype as a row of a replay, with the part of its second."""
    same = ("user", "account", "qos", "cpus", "min_nodes", "max_nodes", "gpus", "throttle")
    seconds = {f"{name}_s": int(getattr(job, name)) for name in ("submit", "runtime", "limit")}
    names = {"job_id": job.row["JobID"], "group": job.id, "task": -1 if job.task is None else job.task, "partition": job.part}
    names |= {"features": "&".join(job.features), "after": str(job.after or "")}
    rest = {"part": job.submit % 1, "least_limit_s": int(job.limit), "memory_node": job.mem_node, "memory_cpu": job.mem_cpu}
    return USUAL | {name: getattr(job, name) for name in same} | seconds | names | rest


def both(prototype: ModuleType, conf: Any, site: Site, jobs: list[Any], turn: float, cycle: float, decay: float) -> pd.DataFrame:
    """Return the starts of the prototype and of a replay with the same phases, in whole seconds."""
    model = mended(prototype)(conf, jobs, (), (turn, cycle, decay), ANSWER_MS / 1000)
    model.shares.last = model.t0
    model.run()
    table = pd.DataFrame([asked_of(job) for job in jobs])
    origin = origin_of(table)
    shifted = (model.t0 - origin + turn, (cycle - origin) % conf.bf_interval, (decay - origin) % conf.calc_period)
    replayed = replay(site, table, Phases(*shifted, table["part"].to_numpy()))
    starts = {"prototype": [int(job.start) for job in jobs], "ours": replayed.start_s.astype(np.int64)}
    return pd.DataFrame(starts, index=table["job_id"])


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_workloads_start_in_the_seconds_of_the_prototype(prototype: ModuleType, seed: int) -> None:
    """Random jobs with the rules that both model; runtimes are such that no end meets a pass in its very millisecond."""
    random = np.random.default_rng(seed)
    conf, site = prototype.Conf(str(SLURM / "micro.conf")), load_site(SLURM / "sites" / "micro")
    users = [(user, account) for (user, account) in conf.users if user != "root"]
    jobs: list[Any] = []
    for number in range(1, 61):
        user, account = users[random.integers(len(users))]
        debug = random.random() < 0.15
        tasks = int(random.integers(2, 5)) if random.random() < 0.15 else 1
        gpus = int(random.choice([0, 0, 0, 1, 2])) if not debug else 0
        shared = {"id": number, "raw": number, "user": user, "account": account, "part": "debug" if debug else "normal"}
        cpus = [1, 2, 4, 6] if debug or gpus else [1, 2, 4, 12, 24, 36]
        shared |= {"qos": str(random.choice(["normal", "low", "two"])), "cpus": int(random.choice(cpus))}
        shared |= {
            "min_nodes": 1,
            "max_nodes": 0,
            "mem_node": 0,
            "mem_cpu": 3000,
            "gpus": gpus,
            "features": {"gpu"} if gpus else set(),
        }
        shared |= {"limit": float(random.choice([60, 120, 240])), "name": "j", "recorded": 0.0}
        shared["submit"] = 1_700_000_000 + round(float(random.uniform(0, 900)), 3)
        if tasks == 1 and random.random() < 0.15 and number > 3:
            shared["after"] = int(random.integers(1, number))
        for task in range(tasks):
            runtime = float(random.choice([5, 7, 11, 33, 37, 41, 57, 59]))
            own = {"task": task, "array": number, "throttle": 2} if tasks > 1 else {}
            jobs.append(
                prototype.Job(row={"JobID": f"{number}_{task}" if tasks > 1 else str(number)}, runtime=runtime, **shared, **own)
            )
    for job in jobs:  # a dependency on a later submission is met by nothing
        if job.after is not None and next(each for each in jobs if each.id == job.after).submit > job.submit:
            job.after = None
    jobs.sort(key=lambda job: (int(job.submit), job.id))
    start_s = both(prototype, conf, site, jobs, 0.2371, 3.7713, 41.0)
    pd.testing.assert_series_equal(start_s["ours"], start_s["prototype"], check_names=False)


CONF = """\
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,bf_resolution=1
SelectTypeParameters=CR_CPU
NodeName=n[1-4] CPUs=8
PartitionName=low Nodes=ALL
PartitionName=high Nodes=n[1-2] PriorityTier=5
"""


def jobs_of(*rows: dict[str, object], first: int = 1) -> pd.DataFrame:
    """Return jobs of eight processors, numbered from ``first``, submitted in the second of their number."""
    usual = USUAL | {"partition": "low", "runtime_s": 100, "limit_s": 120, "min_nodes": 1, "cpus": 8}
    records = []
    for at, row in enumerate(rows, start=first):
        own = {"group": at, "job_id": str(at), "submit_s": 1_000_000 + at, "least_limit_s": row.get("limit_s", 120)}
        records.append(usual | own | row)
    return pd.DataFrame(records)


def waits(conf: str, jobs: pd.DataFrame, **texts: str) -> list[float]:
    return waits_of({"slurm.conf": conf, **{f"{name}.txt": text for name, text in texts.items()}}, jobs)


def waits_of(texts: dict[str, str], jobs: pd.DataFrame) -> list[float]:
    site = read_site(texts, "site")
    return (replay(site, jobs, 1).start_s - jobs["submit_s"]).round(-1).tolist()


def test_a_job_for_several_partitions_goes_where_there_is_room_first() -> None:
    full = [{"partition": "high"}, {"partition": "high"}]
    assert waits(CONF, jobs_of(*full, {"partition": "high,low"}, {"partition": "high"})) == [0, 0, 0, 100]


WITHOUT_PLANS = CONF.replace("bf_interval=1,", "bf_interval=10000,")


def test_a_job_of_more_nodes_than_failed_partitions_leave_ends_its_own() -> None:
    """Two nodes are left once the first job of the higher tier has failed: a job of three blocks the last one, one of two does not."""
    blocked = {"partition": "high", "min_nodes": 2, "cpus": 16}
    jobs = jobs_of({"partition": "high"}, blocked, {"min_nodes": 3, "cpus": 24}, {})
    assert waits(WITHOUT_PLANS, jobs) == [0, 100, 200, 200]
    assert waits(WITHOUT_PLANS, jobs.assign(min_nodes=[1, 2, 2, 1], cpus=[8, 16, 16, 8])) == [0, 100, 0, 100]


def test_tasks_rejected_in_one_partition_are_tried_in_the_next() -> None:
    full = [{"partition": "high"}, {"partition": "high"}]
    tasks = [{"partition": "high,low", "group": 3, "task": task, "job_id": f"3_{task}", "submit_s": 1_000_003} for task in (0, 1)]
    assert waits(WITHOUT_PLANS, jobs_of(*full, *tasks)) == [0, 0, 0, 0]


def test_a_job_that_fits_no_nodes_left_by_failed_partitions_blocks_no_other() -> None:
    """The third job needs the processors of three nodes, but states no number of nodes: it waits for nodes, the last one starts."""
    jobs = jobs_of({"partition": "high"}, {"partition": "high", "min_nodes": 2, "cpus": 16}, {"cpus": 24}, {})
    assert waits(WITHOUT_PLANS, jobs)[3] == 0


def test_a_higher_tier_goes_first_whatever_came_before() -> None:
    jobs = jobs_of({"cpus": 32}, {"cpus": 24}, {"cpus": 16, "partition": "high"})
    assert waits(CONF, jobs) == [0, 200, 100]
    assert waits(CONF.replace(" PriorityTier=5", ""), jobs) == [0, 100, 200]


def test_a_maintenance_reservation_keeps_jobs_out_that_would_reach_into_it() -> None:
    start = pd.Timestamp(1_000_000 + 60, unit="s").isoformat()
    end = pd.Timestamp(1_000_000 + 300, unit="s").isoformat()
    kept = f"ReservationName=m StartTime={start} EndTime={end} Nodes=n[1-4]\n"
    assert waits(CONF, jobs_of({}, {"limit_s": 30, "runtime_s": 20}), reservations=kept) == [300, 0]


def test_a_drained_node_starts_nothing_until_it_is_back() -> None:
    start, end = (pd.Timestamp(1_000_000 + second, unit="s").isoformat() for second in (0, 200))
    rows = "".join(f"{name}|{start}|{end}|DRAIN\n" for name in ("n1", "n2"))
    assert waits(CONF, jobs_of({"partition": "high"}, {}), events=f"NodeName|TimeStart|TimeEnd|State\n{rows}") == [200, 0]


def test_an_exclusive_job_holds_whole_nodes_and_waits_for_one() -> None:
    one = CONF.replace("n[1-4]", "n1").replace("PartitionName=high Nodes=n[1-2] PriorityTier=5\n", "")
    assert waits(one, jobs_of({"cpus": 1, "exclusive": True}, {"cpus": 1})) == [0, 100]
    assert waits(one, jobs_of({"cpus": 1}, {"cpus": 1})) == [0, 0]


def test_a_qos_limit_holds_a_job_back_and_no_other() -> None:
    qos = "Name|Priority|MaxJobsPU|GrpTRES\nnormal|0||\none|0|1|\nfew|0||cpu=8\n"
    conf = "AccountingStorageEnforce=limits\n" + CONF
    assert waits(conf, jobs_of({"qos": "one"}, {"qos": "one"}, {}), qos=qos) == [0, 100, 0]
    assert waits(conf, jobs_of({"qos": "few"}, {"qos": "few", "user": "b"}, {}), qos=qos) == [0, 100, 0]
    assert waits(CONF, jobs_of({"qos": "one"}, {"qos": "one"}, {}), qos=qos) == [0, 0, 0]


def test_a_job_over_its_limit_blocks_no_job_where_there_are_no_free_nodes_either() -> None:
    conf = "AccountingStorageEnforce=limits\nSchedulerType=sched/builtin\n" + CONF
    jobs = jobs_of({"qos": "few", "cpus": 16}, {"qos": "few", "cpus": 24}, {})
    assert waits(conf, jobs, qos="Name|Priority|GrpTRES\nnormal|0|\nfew|0|cpu=30\n") == [0, 100, 0]


def test_a_begin_time_that_has_come_asks_for_no_pass() -> None:
    conf = "SchedulerType=sched/builtin\n" + CONF.replace("sched_interval=1,", "sched_interval=600,")
    assert waits(conf, jobs_of({"eligible_s": 1_000_051, "held_s": -1, "cpus": 1}))[0] > 60


def test_a_begin_time_a_dependency_and_a_throttle_hold_jobs() -> None:
    jobs = jobs_of(
        {"eligible_s": 1_000_051}, {"after": "1"}, {"group": 9, "task": 0, "throttle": 1}, {"group": 9, "task": 1, "throttle": 1}
    )
    assert waits(CONF, jobs.assign(cpus=1)) == [50, 150, 0, 100]


def test_a_job_waits_for_all_that_it_depends_on_and_for_licenses() -> None:
    jobs = jobs_of({"runtime_s": 50}, {"runtime_s": 90}, {"after": "1,2"}, {"licenses": "x:2"}, {"licenses": "x"}, {})
    assert waits("Licenses=x:2,y\n" + CONF, jobs.assign(cpus=1)) == [0, 0, 90, 0, 100, 0]


def test_a_job_with_a_min_limit_fits_before_a_plan_where_its_limit_does_not() -> None:
    first, wide = {"runtime_s": 100, "cpus": 8}, {"cpus": 32, "runtime_s": 10}
    short, long = {"cpus": 8, "limit_s": 300, "runtime_s": 20, "least_limit_s": 60}, {"cpus": 8, "limit_s": 300, "runtime_s": 20}
    assert waits(CONF, jobs_of(first, wide, short)) == [0, 100, 0]
    assert waits(CONF, jobs_of(first, wide, long))[2] > 90


def test_backfill_gives_a_job_its_min_limit_and_no_more() -> None:
    last, wide = {"runtime_s": 400, "limit_s": 420}, {"cpus": 32, "limit_s": 60, "runtime_s": 10}
    least = {"limit_s": 300, "runtime_s": 290, "least_limit_s": 60}
    planned, short = {"cpus": 24, "limit_s": 300, "runtime_s": 10}, {"cpus": 16, "limit_s": 120, "runtime_s": 10}
    assert waits(CONF, jobs_of(last, wide, least, planned, short))[4] > 50  # a plan begins where the min limit ends


def test_a_cancellation_of_all_that_wait_leaves_running_jobs_alone() -> None:
    jobs = jobs_of(*[{"cpus": 32, "runtime_s": 60}] * 3).assign(submit_s=[1_000_001, 1_000_002, 1_000_041])
    together = jobs.assign(withdrawn_s=[1_000_031, 1_000_031, -1])
    np.testing.assert_array_equal(waits(CONF, together), [0, np.nan, 20])
    np.testing.assert_array_equal(waits(CONF, jobs.assign(cancel_s=[1_000_031, 1_000_031, -1])), [0, np.nan, 0])


def test_all_clocks_begin_with_a_slurmctld_that_gave_out_the_first_number() -> None:
    site = replace(read_site({"slurm.conf": CONF.replace("sched_interval=1,", "")}, "site"), computed_s=(999_999.0,), begins=True)
    jobs = jobs_of({}, {})
    for seed in range(5):
        drawn, first_s = draw(site, jobs, seed), 1_000_001 - origin_of(jobs)
        assert drawn.decay_s == drawn.turn_s == pytest.approx(first_s - 2, abs=2.6)
        assert drawn.full_s == drawn.asked_s == pytest.approx(drawn.decay_s - first_s)
    older = draw(replace(site, begins=False), jobs, 1)
    assert older.decay_s != older.turn_s


def test_a_job_that_nothing_can_hold_never_starts_and_the_others_do() -> None:
    jobs = jobs_of({"features": "absent"}, {"partition": "high"})
    site = read_site({"slurm.conf": CONF}, "site")
    assert np.isnan(replay(site, jobs, 1).start_s).tolist() == [True, False]


@pytest.mark.parametrize("features", ["cpu&cpu", "cpu"])
def test_a_feature_named_twice_is_one_and_two_that_no_node_has_hold_no_other_job(features: str) -> None:
    conf = CONF.replace("CPUs=8", "CPUs=8 Feature=cpu,gpu")
    jobs = jobs_of({"features": features}, {"features": "absent&missing"})
    replayed = replay(read_site({"slurm.conf": conf}, "site"), jobs, 1)
    assert np.isnan(replayed.start_s).tolist() == [False, True]


def test_a_seed_makes_a_replay_and_other_phases_make_another() -> None:
    site = read_site({"slurm.conf": CONF.replace("bf_interval=1,", "").replace("batch_sched_delay=0,", "")}, "site")
    jobs = jobs_of(*[{"cpus": 16, "runtime_s": 10 + at} for at in range(20)])
    one, same, other = (replay(site, jobs, seed).start_s for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert draw_phases(site, 3, 1).cycle_s != draw_phases(site, 3, 2).cycle_s


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"qos": "none"}, "QOS none, which the site's files do not name"),
        ({"partition": "gone"}, "partition gone, which slurm.conf"),
    ],
)
def test_jobs_that_the_site_does_not_know_are_refused(change: dict[str, object], refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        replay(read_site({"slurm.conf": CONF}, "site"), jobs_of(change), 0)


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(InputError, match="no column throttle"):
        replay(read_site({"slurm.conf": CONF}, "site"), jobs_of({}).drop(columns="throttle"), 0)


def test_an_exclusive_job_counts_whole_nodes_against_a_limit() -> None:
    qos, conf = "Name|Priority|GrpTRES\nnormal|0|\nfew|0|cpu=8\n", "AccountingStorageEnforce=limits\n" + CONF
    jobs = jobs_of({"qos": "few", "cpus": 1}, {"qos": "few", "cpus": 1})
    assert waits(conf, jobs, qos=qos) == [0, 0]
    assert waits(conf, jobs.assign(exclusive=[True, False]), qos=qos) == [0, 100]


def test_a_range_of_nodes_takes_as_many_as_there_are() -> None:
    one = {"cpus": 3, "max_nodes": 3}
    site = read_site({"slurm.conf": CONF}, "site")
    assert [len(nodes.split(",")) for nodes in replay(site, jobs_of(one), 1).nodes] == [3]
    single = CONF.replace("n[1-4]", "n1").replace("PartitionName=high Nodes=n[1-2] PriorityTier=5\n", "")
    assert waits(single, jobs_of(one)) == [0]


def test_a_job_over_its_limit_preempts_no_other() -> None:
    qos = "Name|Priority|Preempt|PreemptMode|GrpTRES\nnormal|10|||\nlow|1||requeue|\nhigh|50|low||cpu=4\n"
    conf = "AccountingStorageEnforce=limits\nPreemptType=preempt/qos\nPreemptMode=REQUEUE\n" + CONF.replace("n[1-4]", "n1")
    conf = conf.replace("PartitionName=high Nodes=n[1-2] PriorityTier=5\n", "")
    low, high = {"qos": "low", "requeues": True}, {"qos": "high", "submit_s": 1_000_030}
    site = read_site({"slurm.conf": conf, "qos.txt": qos}, "site")
    assert replay(site, jobs_of(low, high | {"cpus": 4}), 1).attempts.tolist() == [2, 1]
    assert replay(site, jobs_of(low, high | {"cpus": 8}), 1).attempts.tolist() == [1, 0]


@pytest.mark.parametrize("seed", [1, 8, 36])
def test_a_reservation_years_ahead_moves_no_start(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows: list[dict[str, object]] = [
        {
            "submit_s": 1_000_000 + int(second),
            "limit_s": int(draw.choice([60, 120, 300, 600, 900])),
            "cpus": int(draw.choice([1, 2, 4, 8, 12, 24])),
            "min_nodes": int(draw.choice([1, 1, 2])),
            "runtime_s": int(draw.integers(10, 300)),
            "partition": str(draw.choice(["p", "q", "p,q"])),
            "exclusive": bool(draw.random() < 0.1),
        }
        for second in np.sort(draw.integers(0, 200, 80))
    ]
    conf = (
        "SchedulerParameters=bf_interval=10,bf_continue\nPriorityType=priority/multifactor\nPriorityWeightJobSize=1000\n"
        "NodeName=n[1-6] CPUs=8\nPartitionName=p Nodes=ALL\nPartitionName=q Nodes=n[2-4] PriorityTier=2\n"
    )
    far = "ReservationName=m StartTime=2060-01-01T00:00:00 EndTime=2060-01-02T00:00:00 Nodes=n[1-6]\n"
    assert waits_of({"slurm.conf": conf}, jobs_of(*rows)) == waits_of({"slurm.conf": conf, "reservations.txt": far}, jobs_of(*rows))
