"""Check what every predictor and every scheduler must do.

Both checks resemble scikit-learn's ``check_estimator``. They simulate small generated workloads of a few days, drawn
from ``seed``. They return nothing, and raise :class:`BrokenContract` with the rule and the place where it broke.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.schema import IDENTITIES, conform
from features.limits import PROCESSORS, SECONDS
from models.runtime.names import predictor as named
from models.runtime.protocol import OnlinePredictor, Predictor, TablePredictor
from sim.campaigns.campaign import campaign_schedules
from sim.campaigns.learned_order import MIXED, PreparedSweep, random_weights
from sim.machine.description import Cluster, Machine, NodeGroup
from sim.policy import SEMANTICS
from sim.schedule import Schedule, busy_procs
from sim.settings import Campaign
from sim.simulation import simulate

MakePredictor: TypeAlias = str | Callable[[], Predictor]
"""A predictor's name, or a function that returns a new predictor each time."""
_PROCS, _JOBS, _LONGEST_S = 16, 330, 36_000
_SCHEDULER = "EASY-SJBF"
_CUTS = 4
"""Number of moments at which the future is changed."""
_PREDICTED = ["start_s", "predicted_s", "corrections"]


class BrokenContract(AssertionError):
    """Raised if a predictor or scheduler does not do what each must do."""


def check_predictor(
    make: MakePredictor, *, plain: MakePredictor | None = None, knows_runtimes: bool = False, seed: int = 0
) -> None:
    """Check what a predictor answers, and that the past alone decides it.

    * Predictions are within 1 second and the request, except those of a table that is not ``capped``.
    * The same jobs get the same predictions again, also from an object that was used before.
    * No prediction or quantile depends on later submissions, or on runtimes of jobs that have not ended, unless the
      predictor ``knows_runtimes`` by design. Else some later prediction must change with the future, or the check would
      prove nothing.
    * Quantiles rise with the level.
    * Jobs without a user, group or executable, a single job, and jobs at the limits of :mod:`features.limits` are
      predicted.
    * Campaigns and sweeps give the same schedules as single simulations.
    * ``plain``, the same predictor in plain Python, predicts the same under all semantics and when asked again.
    """
    if not callable(make) and not isinstance(make, str):
        raise InputError(f"a {type(make).__name__} makes no predictors: give a class, or a function that returns a new one")
    new = _maker(make)
    jobs = _jobs(seed)
    schedule = _predicted_within(new, jobs)
    _alike(
        schedule,
        simulate(jobs, procs=_PROCS, scheduler=_SCHEDULER, predictor=new()),
        "the same jobs get other predictions the second time",
    )
    used = new()
    first, again = (simulate(jobs, procs=_PROCS, scheduler=_SCHEDULER, predictor=used) for _ in range(2))
    _alike(first, again, "an object that was used before predicts differently")
    if not knows_runtimes:
        for semantics in SEMANTICS:
            _past_decides(new, jobs, semantics, seed)
    _predicted_within(new, jobs.assign(**{name: pd.Categorical([None] * len(jobs)) for name in IDENTITIES}))
    _predicted_within(new, jobs[:1])
    _predicted_within(new, _at_limits(jobs), PROCESSORS)
    _same_together(new, jobs)
    if plain is not None:
        _as_in_plain_python(new, _maker(plain), jobs)


def check_scheduler(name: str, *, predictor: MakePredictor = "requested", semantics: str = "per-second", seed: int = 0) -> None:
    """Check that a scheduler's schedules are possible, and decided by the past alone.

    * Each job runs once, for its runtime, after its submission, on processors that no other job holds.
    * The same jobs get the same schedule again, alone and in a campaign.
    * No start depends on later submissions, or on the runtime of a job that has not ended.
    * No job waits if all jobs fit at once.
    * Other job numbers, other user names, and a trace that is whole days later change nothing.
    * As many nodes of one processor, and one node with all processors, are the same machine as the pool.
    """
    new = _maker(predictor)

    def schedule(jobs: pd.DataFrame, procs: int = _PROCS, machine: Machine | None = None) -> Schedule:
        return simulate(jobs, procs=procs, scheduler=name, predictor=new(), semantics=semantics, machine=machine)

    jobs = _jobs(seed)[: _JOBS // 2]
    expected = schedule(jobs)
    _possible(expected)
    _possible(schedule(jobs[:1]))
    _alike(expected, schedule(jobs), "the same jobs get another schedule the second time")
    source = predictor if isinstance(predictor, str) else new
    campaign = Campaign(schedulers=(name,), predictors=(source,), semantics=(semantics,))
    _alike(expected, campaign_schedules(jobs, campaign, procs=_PROCS)[0], "a campaign schedules otherwise")
    for row, other in _other_futures(jobs, expected, np.random.default_rng(seed)):
        now = jobs["submit_s"].iloc[row]
        one, two = (table["start_s"].where(table["start_s"] <= now) for table in (expected.jobs, schedule(other).jobs))
        _hold(one[: row + 1].equals(two[: row + 1]), f"what was submitted or ended after job {row + 1} changes starts before it")
    roomy = schedule(jobs, int(jobs["procs"].sum())).jobs
    _hold(roomy["start_s"].equals(roomy["submit_s"]), "a job waits though all jobs fit at once")
    renamed = jobs.assign(job_id=jobs["job_id"] + 1000, user=jobs["user"].cat.rename_categories(lambda user: f"a{user[::-1]}"))
    _alike(expected, schedule(renamed), "numbers of jobs or names of users change the schedule")
    later = schedule(jobs.assign(submit_s=jobs["submit_s"] + 7 * DAY_S)).jobs
    _hold((expected.jobs["start_s"] + 7 * DAY_S).equals(later["start_s"]), "a trace that is a week later has another schedule")
    for nodes in (NodeGroup(_PROCS, procs=1), NodeGroup(1, procs=_PROCS)):
        equal = schedule(jobs, machine=Machine("equal", (Cluster("all", (nodes,)),)))
        _alike(expected, equal, f"{nodes.count} nodes of {nodes.procs} processors get another schedule than the pool")


def _maker(make: MakePredictor) -> Callable[[], Predictor]:
    return (lambda: named(make)) if isinstance(make, str) else make


def _hold(rule: bool, broken: str) -> None:
    if not rule:
        raise BrokenContract(broken)


def _jobs(seed: int) -> pd.DataFrame:
    """Draw jobs on a busy machine; half come together, some lack a user, group or executable."""
    rng = np.random.default_rng(seed)
    requested = np.ceil(_LONGEST_S * rng.random(_JOBS) ** 2 / 60).astype(np.int64).clip(1) * 60
    runtime = np.ceil(requested * rng.random(_JOBS)).astype(np.int64).clip(1)
    procs = np.ceil(_PROCS * rng.random(_JOBS) ** 3).astype(np.int64).clip(1)
    gap_s = float((runtime * procs).mean()) / (1.1 * _PROCS)
    submit = np.cumsum(np.where(rng.random(_JOBS) < 0.5, 0, rng.exponential(2 * gap_s, _JOBS))).astype(np.int64)
    texts = {
        name: rng.choice(np.array([*(f"{name}{number}" for number in range(count)), None], object), _JOBS)
        for name, count in (("user", 7), ("group", 3), ("executable", 4))
    }
    numbers = {
        "job_id": np.arange(1, _JOBS + 1),
        "submit_s": submit,
        "runtime_s": runtime,
        "procs": procs,
        "requested_s": requested,
    }
    return conform({**numbers, **texts}, _JOBS).astype(dict.fromkeys(numbers, "int64"))


def _at_limits(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs with times of 1 s to three centuries, on 1 to all possible processors."""
    rng = np.random.default_rng(len(jobs))
    requested = rng.choice([1, 2, SECONDS // 2, SECONDS - 1, SECONDS], len(jobs))
    runtime = np.minimum(rng.choice([1, SECONDS // 3, SECONDS], len(jobs)), requested)
    procs = rng.choice([1, PROCESSORS // 2, PROCESSORS], len(jobs))
    submit = np.sort(rng.choice([0, 1, SECONDS - 1, SECONDS], len(jobs)))
    return jobs.assign(submit_s=submit, runtime_s=runtime, procs=procs, requested_s=requested)


def _predicted_within(new: Callable[[], Predictor], jobs: pd.DataFrame, procs: int = _PROCS) -> Schedule:
    source = new()
    schedule = simulate(jobs, procs=procs, scheduler=_SCHEDULER, predictor=source)
    if not isinstance(source, TablePredictor) or source.capped:
        within = schedule.jobs["predicted_s"].between(1, schedule.jobs["requested_s"])
        _hold(bool(within.all()), f"the prediction of job {int((~within).argmax()) + 1} is not within 1 s and its request")
    if schedule.quantiles is not None:
        _hold(bool((np.diff(schedule.quantiles.to_numpy(), axis=1) >= 0).all()), "a quantile is below that of a lower level")
    return schedule


def _alike(one: Schedule, other: Schedule, broken: str) -> None:
    same = one.jobs[_PREDICTED].reset_index(drop=True) == other.jobs[_PREDICTED].reset_index(drop=True)
    _hold(bool(same.all(axis=None)), f"{broken}: job {int((~same.all(axis=1)).argmax()) + 1}")
    if one.quantiles is not None and other.quantiles is not None:
        _hold(one.quantiles.equals(other.quantiles), f"{broken}: quantiles")


def _other_futures(jobs: pd.DataFrame, schedule: Schedule, rng: np.random.Generator) -> list[tuple[int, pd.DataFrame]]:
    """Return pairs of a row and the jobs, with all changed that is unknown at its submission.

    That is later submissions, and the runtimes of jobs that had not ended. The row is the last one submitted by then.
    """
    count, submit, futures = len(jobs), jobs["submit_s"].to_numpy(), []
    start, end = schedule.jobs["start_s"].to_numpy(), schedule.jobs["end_s"].to_numpy()
    rows = np.flatnonzero(np.diff(submit) > 0)
    for row in rows[rows >= count // 6][:: max(1, len(rows) // (_CUTS + 1))][:_CUTS]:
        now, later = submit[row], np.arange(count) > row
        requested = np.where(later, rng.integers(1, _LONGEST_S, count), jobs["requested_s"])
        ran = (now - start).clip(0)
        runtime = np.where(end > now, ran + 1 + rng.integers(0, _LONGEST_S, count), jobs["runtime_s"])
        changed: dict[str, Any] = {
            "submit_s": np.where(later, np.sort(rng.integers(now + 1, submit[-1] + _LONGEST_S, count)), submit),
            "requested_s": requested,
            "runtime_s": np.minimum(runtime, requested),
            "procs": np.where(later, rng.integers(1, schedule.procs + 1, count), jobs["procs"]),
        }
        for name in IDENTITIES[:3]:
            other = jobs[name].astype(object).to_numpy()
            changed[name] = pd.Categorical(np.where(later, rng.permutation(other), other), categories=jobs[name].cat.categories)
        futures.append((int(row), jobs.assign(**changed)))
    return futures


def _past_decides(new: Callable[[], Predictor], jobs: pd.DataFrame, semantics: str, seed: int) -> None:
    policy: dict[str, Any] = {"procs": _PROCS, "scheduler": _SCHEDULER, "semantics": semantics}
    schedule = simulate(jobs, predictor=new(), **policy)
    changed = 0
    for row, future in _other_futures(jobs, schedule, np.random.default_rng(seed)):
        other = simulate(future, predictor=new(), **policy)
        one, two = (replay.jobs["predicted_s"].to_numpy() for replay in (schedule, other))
        differ = one[: row + 1] != two[: row + 1]
        _hold(
            not differ.any(), f"the prediction of job {int(differ.argmax()) + 1} depends on what is known only after job {row + 1}"
        )
        if schedule.quantiles is not None and other.quantiles is not None:
            _hold(
                schedule.quantiles[: row + 1].equals(other.quantiles[: row + 1]),
                f"quantiles depend on what is known only after job {row + 1}",
            )
        changed += int((one[row + 1 :] != two[row + 1 :]).sum())
    _hold(changed > 0, "no prediction ever depends on the jobs before it: nothing was checked")


def _same_together(new: Callable[[], Predictor], jobs: pd.DataFrame) -> None:
    """Compare campaigns and sweeps, which reuse memory, with single simulations."""
    jobs = jobs[: _JOBS // 2]
    weights = random_weights(2)
    names = [f"MIXED({','.join(map(repr, row))})-EASY-SPF" for row in weights.tolist()]
    alone = [simulate(jobs, procs=_PROCS, scheduler=name, predictor=new()) for name in names]
    source = new()
    python = isinstance(source, OnlinePredictor)
    together = campaign_schedules(jobs, Campaign(schedulers=tuple(names), predictors=(new if python else source,)), procs=_PROCS)
    for one, other in zip(alone, together, strict=True):
        _alike(one, other, "a campaign schedules otherwise")
    if not python and getattr(source, "retrain", None) is None:
        swept = PreparedSweep(jobs, procs=_PROCS, policy=MIXED._replace(predictor=source)).measure(weights)["mean_wait_s"]
        waits = [(schedule.jobs["start_s"] - schedule.jobs["submit_s"]).mean() for schedule in alone]
        _hold(bool(np.allclose(swept, waits, rtol=1e-12)), "a sweep schedules otherwise")


def _as_in_plain_python(new: Callable[[], Predictor], plain: Callable[[], Predictor], jobs: pd.DataFrame) -> None:
    for semantics in SEMANTICS:
        for correction in ("requested", "conditional"):
            policy: dict[str, Any] = {"procs": _PROCS, "scheduler": _SCHEDULER, "semantics": semantics, "correction": correction}
            one, other = (simulate(jobs, predictor=source(), **policy) for source in (new, plain))
            _alike(one, other, f"in plain Python it predicts differently ({semantics}, {correction})")
            _hold(one.clamped_predictions == other.clamped_predictions, "in plain Python another number of predictions is clamped")


def _possible(schedule: Schedule) -> None:
    jobs = schedule.jobs
    _hold(bool((jobs["start_s"] >= jobs["submit_s"]).all()), "a job starts before its submission")
    _hold(bool((jobs["end_s"] - jobs["start_s"] == jobs["runtime_s"]).all()), "a job does not run for its runtime")
    _hold(int(busy_procs(schedule).values.max()) <= schedule.procs, "jobs hold more processors than there are")
