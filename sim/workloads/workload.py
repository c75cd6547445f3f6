"""Generator of workloads with users, sessions and requested times, if no log will do.

The model of Lublin & Feitelson (:mod:`sim.workloads.lublin`) gives sizes, runtimes and arrivals; the users' model
(:mod:`sim.workloads.people`) orders them: each user's jobs are alike, and the distributions stay the model's. docs/studies/workload.md
compares it with a real trace.
"""

import math
from dataclasses import asdict, dataclass
from numbers import Integral, Real

import numpy as np
import pandas as pd

from features import limits
from features.errors import InputError, shown
from features.jobs.schema import Trace, conform
from sim.workloads import lublin, people

GENERATOR = 2
"""Version of the generator; it changes whenever any value of a generated job changes."""
ORIGIN_UNIX_S = 1_704_067_200
"""2024-01-01 00:00 UTC, a Monday."""
USERS_PER_GROUP = 8
COMPLETED, FAILED = 1, 0  # SWF status


@dataclass(frozen=True)
class Workload:
    """Settings: ``jobs`` jobs of ``users`` users for a machine of ``procs`` processors.

    ``load`` is offered load, sum(procs * runtime) / (machine * time from first to last submission); it sets that time.
    ``kept``, if given, is the number of first jobs to keep: a shorter trace of the same jobs. ``generator`` is the version: 1
    makes more jobs as wide as the machine and more short ones that request hours. Raises InputError for a value out of range.
    """

    jobs: int = 10_000
    procs: int = 256
    users: int = 100
    load: float = 0.6
    seed: int = 0
    kept: int | None = None
    generator: int = GENERATOR

    def __post_init__(self) -> None:
        for name, lowest, most in (
            ("generator", 1, GENERATOR),
            ("jobs", 2, limits.JOBS),
            ("procs", 1, limits.PROCESSORS),
            ("users", 1, limits.JOBS // 100),
            ("seed", 0, 2**64),
        ):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < lowest:
                raise InputError(f"generated workload: {name} must be a whole number of at least {lowest}, not {shown(value)}")
            if int(value) > most:
                raise InputError(f"generated workload: {name} must be at most {most:,}, not {shown(value)}")
        if self.kept is not None and (
            not isinstance(self.kept, int) or isinstance(self.kept, bool) or not 2 <= self.kept <= self.jobs
        ):
            raise InputError(
                f"generated workload: kept must be a whole number from 2 to {self.jobs}, the jobs, not {shown(self.kept)}"
            )
        if not isinstance(self.load, Real) or isinstance(self.load, bool) or not 0.01 <= self.load <= 10:
            raise InputError(f"generated workload: load must be a number from 0.01 to 10, not {shown(self.load)}")


def generate(config: Workload) -> Trace:
    """Return the workload of ``config`` as a ``generated`` trace: same config, same bytes.

    Users are named by expected activity, ``user1`` first; a failed run and one killed at its limit have status 0. Sizes and
    runtimes depend on ``jobs``, ``procs`` and ``seed`` alone, not on the load.
    """
    size_rng, arrival_rng, people_rng, request_rng, group_rng = np.random.default_rng(config.seed).spawn(5)
    procs = lublin.sizes(size_rng, config.jobs, config.procs, whole=config.generator == 1)
    runtime_s, killed = people.cut_at_limits(size_rng, lublin.runtimes(size_rng, procs))
    submit_s = _arrivals(arrival_rng, config, float(procs @ runtime_s))
    behaviour = people.behave(people_rng, submit_s, config.users, procs, runtime_s)
    procs, runtime_s, killed = _assign(behaviour, procs, runtime_s, killed)
    alike = behaviour if config.generator == 1 else people.by_length(behaviour, runtime_s, killed)
    requested_s = people.requests(request_rng, alike, runtime_s, killed)
    group = group_rng.integers(math.ceil(config.users / USERS_PER_GROUP), size=config.users)
    kept = slice(config.kept)
    jobs = conform(
        {
            "job_id": np.arange(1, config.jobs + 1)[kept],
            "submit_s": submit_s[kept],
            "runtime_s": runtime_s[kept],
            "procs": procs[kept],
            "requested_s": requested_s[kept],
            "user": _named("user", behaviour.user[kept]),
            "group": _named("group", group[behaviour.user][kept]),
            "executable": _named("app", (behaviour.user.astype(np.int64) * people.APPLICATIONS + behaviour.application)[kept]),
            "status": np.where(behaviour.failed | killed, FAILED, COMPLETED)[kept],
        },
        len(submit_s[kept]),
    )
    settings = {name: value for name, value in asdict(config).items() if value is not None}
    options = ", ".join(f"{name} {value}" for name, value in settings.items())
    return Trace(
        name="generated",
        jobs=jobs,
        procs=config.procs,
        origin_unix_s=ORIGIN_UNIX_S,
        timezone="UTC",
        generated=True,
        source=f"generated workload ({options})",
        header={name: str(value) for name, value in settings.items()},
        notes=(
            "This workload is generated, not recorded: sizes, runtimes and arrivals after Lublin & Feitelson (JPDC 2003, batch jobs), "
            f"with users, sessions, repeated jobs and requested times of our own; {options}.",
        ),
    )


def _arrivals(rng: np.random.Generator, config: Workload, work: float) -> np.ndarray:
    """Return submissions, int64 seconds from 0, over a time set by the load.

    In that time ``work`` processor-seconds are the requested load. The inter-arrival times are scaled before the daily cycle is
    applied, so the cycle is the model's at any load.
    """
    even_s = lublin.even_arrivals(rng, config.jobs)
    even_s *= lublin.off_the_clock(work / (config.procs * config.load)) / even_s[-1]
    return np.rint(lublin.on_the_clock(even_s)).astype(np.int64)


def _assign(
    behaviour: people.PeopleChoices, procs: np.ndarray, runtime_s: np.ndarray, killed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Assign the sampled (size, runtime, killed) to the jobs by rank.

    Sizes come first, then the runtimes of each size. Only the order changes, so the distribution of sizes, and of runtimes given
    the size, is that of the sample.
    """
    sample = np.lexsort((runtime_s, procs))
    procs, runtime_s, killed = procs[sample], runtime_s[sample], killed[sample]
    size = np.empty_like(procs)
    size[np.argsort(behaviour.size_rank, kind="stable")] = procs
    place = np.lexsort((behaviour.runtime_rank, size))
    runtime, at_limit = np.empty_like(runtime_s), np.empty_like(killed)
    runtime[place], at_limit[place] = runtime_s, killed
    return size, runtime, at_limit


def _named(kind: str, numbers: np.ndarray) -> pd.Categorical:
    used = np.flatnonzero(np.bincount(numbers))
    return pd.Categorical.from_codes(
        np.searchsorted(used, numbers), categories=pd.Index([f"{kind}{n + 1}" for n in used], dtype="str")
    )
