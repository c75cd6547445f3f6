"""A policy as one value: scheduler, predictor, correction, semantics and the rest.

It can be translated to the kernel's codes.

Its semantics are the order of events, and the causes of a scheduling pass. Two semantics are published. ``per-second``
(Goponenko et al. 2022): all events of a second, ends first, then submissions in file order, then one pass.
``per-event`` (Gaussier et al. 2015): one event at a time, submissions before ends, each followed by a pass. In both an
expired prediction only extends the plan of running jobs. Options add passes while jobs wait: ``expiry=pass`` whenever a
running job outlives its prediction, as in Li & Zhang (OKCM); ``every=N`` at each multiple of N of the trace's seconds,
as a timer does. In ``per-event``, the pass for all expiries of a second precedes its events; the timer's follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from features import limits
from features.errors import InputError, unknown
from features.validation import flag, text, whole
from models.runtime.dispatch import ANSWERS_APART, OUTSIDE
from models.runtime.options import Option, named, read
from sim.kernel.corrections import CORRECTIONS
from sim.kernel.loop import Settings
from sim.kernel.orders import FCFS, Scoring
from sim.kernel.state import NEVER
from sim.schedulers.names import ALGORITHMS, BACKFILLING, PLANNERS, Scheduler, spelled
from sim.schedulers.names import scheduler as named_scheduler
from sim.schedulers.scores import as_scoring
from sim.users.closed import OPEN_LOOP
from sim.users.closed import users as named_users

SEMANTICS = ("per-second", "per-event")
EXPIRY = ("plan", "pass")
"""Effects of an expired prediction: a longer plan, or also a pass."""
_OPTIONS = {"expiry": Option("plan", words=EXPIRY), "every": Option(0, minimum=1, maximum=10**9)}


@dataclass(frozen=True)
class Semantics:
    """Semantics as settings.

    ``per_event``: one event at a time. ``expiry_pass``: a pass at expired predictions. ``every_s``: period of timed
    passes, 0: none.
    """

    per_event: bool = False
    expiry_pass: bool = False
    every_s: int = 0

    @property
    def timed(self) -> bool:
        """Tell whether some passes have no event as their cause."""
        return self.expiry_pass or self.every_s > 0


@lru_cache(maxsize=256)
def semantics(name: str) -> Semantics:
    """Return the semantics called ``name``, such as ``per-second(expiry=pass,every=30)``.

    Raises InputError with the known names for any other.
    """
    try:
        plain, options = named(name)
    except InputError as error:
        raise InputError(f"semantics {name}: {error}") from error
    if plain not in SEMANTICS:
        raise unknown(
            "semantics", name, SEMANTICS, f"{', '.join(SEMANTICS)}, with options as in {SEMANTICS[0]}(expiry=pass,every=30)"
        )
    try:
        values = read(options, _OPTIONS)
    except InputError as error:
        raise InputError(f"semantics {name}: {error}") from error
    return Semantics(plain == "per-event", values["expiry"] == "pass", values["every"])


NAMES = ("scheduler", "predictor", "correction")
"""The fields that tell policies apart in tables of one setting."""


class Policy(NamedTuple):
    """The settings that decide a schedule: arguments of :func:`sim.simulate`, by their names.

    ``predictor`` is a name, or whatever else :func:`sim.simulate` takes. A policy of names alone can be hashed,
    compared and written as JSON.
    """

    scheduler: str = "EASY"
    predictor: Any = "requested"
    correction: str = "requested"
    semantics: str = "per-second"
    starvation_s: int | None = None
    dependencies: bool = False
    seed: int = 0
    shake_s: int = 0
    users: str = OPEN_LOOP
    load: float = 1.0
    squeeze: float = 1.0

    def __str__(self) -> str:
        return " / ".join(str(self[place]) for place in range(len(NAMES)))

    @property
    def changes(self) -> str:
        """Return what changes the workload, such as ``users closed, load 2``; empty for nothing."""
        changed = [f"users {self.users}"] if self.users != OPEN_LOOP else []
        changed += [f"{name} {factor:g}" for name, factor in (("load", self.load), ("squeeze", self.squeeze)) if factor != 1]
        return ", ".join(changed)

    @property
    def as_recorded(self) -> bool:
        """Tell whether jobs are submitted at the recorded times."""
        return not (self.dependencies or self.shake_s or self.changes)

    def label(self, trace: str) -> str:
        """Return the name of a trace with its changes in brackets, if any."""
        return f"{trace} ({self.changes})" if self.changes else trace

    def names(self) -> dict[str, Any]:
        """Return scheduler, predictor and correction, as columns of a table."""
        return dict(zip(NAMES, self, strict=False))

    def checked(self) -> Policy:
        """Return the policy with values of the types that kernels are compiled for.

        The scheduler is spelled as usual. Raises InputError for a value of another type, or out of bounds.
        """
        for name in ("correction", "semantics", "users"):
            text(name, getattr(self, name))
        starvation_s = None if self.starvation_s is None else whole("starvation_s", self.starvation_s, limits.SECONDS)
        return self._replace(
            scheduler=spelled(text("scheduler", self.scheduler)),
            starvation_s=starvation_s,
            dependencies=flag("dependencies", self.dependencies),
            seed=whole("seed", self.seed),
            shake_s=whole("shake_s", self.shake_s),
        )

    def plan(self) -> Scheduler:
        """Return the scheduler; InputError for an unknown name or an invalid starvation threshold."""
        plan = named_scheduler(self.scheduler)
        if self.correction not in CORRECTIONS:
            raise unknown("correction", self.correction, CORRECTIONS)
        semantics(self.semantics)
        if named_users(self.users).loop != OPEN_LOOP and self.dependencies:
            raise InputError(f"users {self.users} and dependencies both say when jobs are submitted: give one of them")
        if self.starvation_s is not None and not 0 <= self.starvation_s <= limits.SECONDS:
            raise InputError(f"a starvation threshold of {self.starvation_s:,} s: must be 0 to {limits.SECONDS:,}")
        if self.starvation_s is not None and plan.algorithm in ("Conservative", *PLANNERS):
            raise InputError(f"{plan.algorithm} reserves for every job, so a starvation threshold changes nothing")
        return plan


def applied(policy: Policy, plan: Scheduler) -> Policy:
    """Return ``policy``, with the default correction if no prediction expires under ``plan``."""
    if plan.harm is not None or plan.by_request:
        return policy._replace(correction="requested")
    return policy


NO_SCORES = as_scoring(None, None, 0)
"""The programs of a policy whose orders are no scores."""


def kernel_settings(
    policy: Policy,
    plan: Scheduler,
    predictor: int,
    bits: int,
    origin: int = 0,
    midnight: int = NEVER,
    monitored: bool = False,
    dependent: bool = False,
    scoring: Scoring = NO_SCORES,
) -> Settings:
    """Return the policy as the kernel's codes, with ``plan`` for its scheduler.

    ``predictor`` is the predictor's code. ``bits`` is how many bits of an event hold the job. ``origin`` is the trace's
    second from which the kernel counts, ``midnight`` the first at which a predictor is retrained. ``monitored``: on a
    cluster with counters. ``dependent``: some jobs wait for others. ``scoring`` is as
    :func:`sim.schedulers.scores.as_scoring` makes it.
    """
    rules = semantics(policy.semantics)
    order, backfill = plan.order.code, plan.backfill.code
    # a starving job goes to the head of the primary queue only; if that queue is FCFS anyway nothing changes
    same_queue = plan.order == plan.backfill and (policy.starvation_s is None or order == FCFS)
    backfill_changing = plan.backfill.changes
    changing = backfill_changing or plan.order.changes
    return Settings(
        algorithm=ALGORITHMS[plan.algorithm],
        reservations=plan.reservations,
        order=order,
        weights=np.array(plan.order.weights),
        backfill=backfill,
        backfill_weights=np.array(plan.backfill.weights),
        one_queue=plan.algorithm not in BACKFILLING or same_queue,
        changing=changing,
        backfill_changing=backfill_changing,
        # if FIT and END differ, a backfilled job can still move the reservation; skipped jobs are asked about at any pass;
        # what Harm gains from a start changes with time, and planners search by the clock
        steady=plan.reservations == 1
        and plan.harm is None
        and plan.algorithm not in PLANNERS
        and predictor != OUTSIDE
        and predictor not in ANSWERS_APART
        and plan.rush is None,
        correction=CORRECTIONS[policy.correction],
        predictor=predictor,
        starvation=NEVER if policy.starvation_s is None else policy.starvation_s,
        per_event=rules.per_event,
        # the program of Gaussier et al. 2015 has this gate for FCFS-EASY alone
        gated=rules.per_event and plan.algorithm == "EASY" and order == backfill == FCFS and plan.reservations == 1,
        timed=rules.timed,
        expiry=rules.expiry_pass,
        every=rules.every_s,
        phase=origin % rules.every_s if rules.every_s else 0,
        by_request=plan.by_request,
        dependent=dependent,
        midnight=midnight,
        monitored=monitored,
        bits=bits,
        scoring=scoring,
    )
