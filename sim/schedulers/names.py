"""Scheduler names, ``[ORDER-]ALGORITHM[-BACKFILLORDER][+RUSH(...)]``.

A missing order is FCFS, both of the queue and of backfill candidates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from features.errors import InputError, meant
from models.runtime.options import Option, parse, read
from sim.kernel.orders import ALIASES, ALIASES_BEHIND, NO_WEIGHTS, ORDERS, SCORE, changes_while_waiting
from sim.kernel.passes import CONSERVATIVE, EASY, HARM, JUSTBF, LIST, ORIGBF, PLANRS, STRICT
from sim.schedulers.harm import Harm, harm
from sim.schedulers.scores import Score, score

ALGORITHMS: dict[str, int] = {
    **{"EASY": EASY, "JustBF": JUSTBF, "Conservative": CONSERVATIVE, "Harm": HARM},
    **{"List": LIST, "Strict": STRICT, "PlanRS": PLANRS, "OrigBF": ORIGBF},
}
SLURM = "Slurm"
"""The scheduler of a site described by its slurm.conf (:mod:`sim.site.replay`)."""
BACKFILLING = ("EASY",)
"""Algorithms with a separate order for backfilling; the others have one queue."""
PLANNING = ("JustBF", "Conservative")
"""Algorithms that plan every waiting job."""


@dataclass(frozen=True)
class Order:
    """A queue order, with the weights of a mixed policy, or with a ``score``.

    ``weights`` are those of the features (n, r, wait, r/n, expansion, r n), or the values of the score.
    """

    name: str = "FCFS"
    weights: tuple[float, ...] = NO_WEIGHTS
    score: Score | None = None

    @property
    def code(self) -> int:
        """Return the integer of :mod:`sim.kernel.orders`."""
        return ORDERS[self.name] if self.score is None else SCORE

    @property
    def changes(self) -> bool:
        """Tell whether the order of two waiting jobs can change."""
        return self.score.changes if self.score is not None else changes_while_waiting(self.code, self.weights)


@dataclass(frozen=True)
class Rush:
    """Start decisions of Nichols et al. (RUSH).

    A model is asked about each job that could start. The job is skipped, at most ``skips`` times, if the model predicts
    variation. With a ``patience``, a job may be skipped for that many seconds from its first skip on, any number of
    times unless ``skips`` is given too. A skipped job is asked about again after ``every`` seconds at the earliest. A
    model skips from the probability ``cutoff`` on, by default its own. ``model`` is ``oracle``, ``nowcast``, ``coin``,
    or any name for which the caller has a model; empty for a start decision given beside the name.
    """

    model: str = ""
    skips: int = 10
    patience: int = 0
    every: int = 0
    cutoff: float | None = None


UNTRAINED = ("oracle", "nowcast", "coin")
"""Models of RUSH that are not learned: see :mod:`sim.cluster.start_models`."""
ANY_SKIPS = 999_999_999
"""A number of skips that no job reaches."""
_RUSH = {
    "model": Option(""),
    **{option: Option(getattr(Rush, option), minimum=0, maximum=ANY_SKIPS) for option in ("skips", "patience", "every")},
    "cutoff": Option(None, minimum=0.0, maximum=1.0),
}


@dataclass(frozen=True)
class PlanRS:
    """The options of ``PlanRS(...)`` (Klusacek & Chlumsky 2016)."""

    iterations: int = 300
    """Iterations of one search; 0 for no search."""
    interval: int = 60
    """Min time from one search to the next, seconds."""
    wait: float = 1.0
    slowdown: float = 1.0
    fairness: float = 10.0
    """Weights of the relative improvements."""


@dataclass(frozen=True)
class OrigBF:
    """The options of ``OrigBF(...)`` (Klusacek & Chlumsky 2016)."""

    reservations: str = "kept"
    """Whether reservations are ``kept`` when the order changes, or made ``anew`` at each pass."""


PLANNERS = {
    "PlanRS": {
        "iterations": Option(PlanRS.iterations, minimum=0, maximum=10**6),
        "interval": Option(PlanRS.interval, minimum=1, maximum=10**9),
        **{weight: Option(getattr(PlanRS, weight), minimum=0.0) for weight in ("wait", "slowdown", "fairness")},
    },
    "OrigBF": {"reservations": Option(OrigBF.reservations, words=("kept", "anew"))},
}
"""Algorithms that plan nodes, also on a pool of processors, with their options."""


@dataclass(frozen=True)
class Scheduler:
    """A scheduling algorithm with the order of its queue and of its backfill candidates.

    ``rush`` is set if a model decides on starts; ``harm``, ``plan_rs`` and ``orig_bf`` for the algorithms of those
    names. ``by_request``: jobs are planned by their requests; predictions only order the queue.
    """

    name: str
    algorithm: str
    order: Order = field(default_factory=Order)
    backfill: Order = field(default_factory=Order)
    reservations: int = 1
    rush: Rush | None = None
    harm: Harm | None = None
    plan_rs: PlanRS | None = None
    orig_bf: OrigBF | None = None
    by_request: bool = False

    @property
    def draws(self) -> bool:
        """Tell whether it draws scenarios or moves at random, so that the seed matters."""
        searches = self.plan_rs is not None and self.plan_rs.iterations > 0
        return self.harm is not None or searches


def scheduler(name: str) -> Scheduler:
    """Return the scheduler ``name``, in upper or lower case; InputError for an unknown name."""
    if not isinstance(name, str):
        raise InputError(f"unknown scheduler {name!r}; {grammar()}")
    return _scheduler(name)


def spelled(name: str) -> str:
    """Return the name of a scheduler with its words outside brackets in their usual letters."""
    words = {word.upper(): word for word in (*ALGORITHMS, *ORDERS, *ALIASES, *ALIASES_BEHIND, "SCORE", "RUSH", SLURM)}
    depth, parts = 0, re.split(r"([()])", name)
    for place, part in enumerate(parts):
        depth += (part == "(") - (part == ")")
        if depth == 0:
            parts[place] = re.sub(r"[A-Za-z]\w*", lambda word: words.get(word[0].upper(), word[0]), part)
    return "".join(parts)


@lru_cache(maxsize=1024)
def _scheduler(name: str) -> Scheduler:
    if "POLICY(" in name.upper():
        raise InputError(
            f"scheduler {name!r}: call pipelines.lake.registry.resolved(NAME) first, which turns POLICY(...) into SCORE(...)"
        )
    algorithms = {algorithm.upper(): algorithm for algorithm in ALGORITHMS}
    base, rush = _rush(name)
    if base.upper() == SLURM.upper():
        raise InputError(
            f"scheduler {name!r}: is a site's own, which only queuecast simulate, parity and whatif replay: give them the folder with its "
            "slurm.conf as --machine"
        )
    if not base.isascii():  # the capitals of other letters may be ASCII
        raise InputError(f"unknown scheduler {name!r}: names are ASCII")
    if weighing := re.fullmatch(r"HARM(?:\((.+)\))?", base, re.IGNORECASE):
        try:
            return Scheduler(name, "Harm", rush=rush, harm=harm((weighing[1] or "").lower()))
        except InputError as error:
            raise InputError(f"scheduler {name!r}: {error}") from error
    if planning := re.fullmatch(r"(PLANRS|ORIGBF)(?:\((.+)\))?", base, re.IGNORECASE):
        return _planning(name, algorithms[planning[1].upper()], planning[2] or "", rush)
    parts = _parts(base.upper())
    options = _easy_options(parts, name)
    at = next((i for i, part in enumerate(parts) if part in algorithms), None)
    if at is None and parts[0] in {**ORDERS, **ALIASES} and len(parts) == 1:
        raise InputError(
            f"scheduler {name!r}: is an order of the queue, not an algorithm: name {name}-Strict (no backfilling), {name}-EASY or {name}-JustBF"
        )
    if at is None or at > 1 or len(parts) > at + 2:
        raise InputError(f"unknown scheduler {name!r}; {_meant(base, parts)}")
    algorithm = algorithms[parts[at]]
    if algorithm in ("Harm", *PLANNERS):
        raise InputError(f"scheduler {name!r}: {algorithm} has an order of its own and takes no other; {grammar()}")
    order = _order(parts[0], ALIASES, name) if at == 1 else Order()
    if algorithm == "Conservative" and order != Order():
        raise InputError(f"scheduler {name!r}: Conservative gives reservations in order of submission and takes no other order")
    if len(parts) == at + 1:
        return Scheduler(name, algorithm, order, Order() if algorithm in BACKFILLING else order, rush=rush, **options)
    if algorithm not in BACKFILLING:
        raise InputError(f"unknown scheduler {name!r}: {algorithm} has one queue and takes no backfill order; {grammar()}")
    return Scheduler(name, algorithm, order, _order(parts[at + 1], ALIASES_BEHIND, name), rush=rush, **options)


_EASY = {"reservations": Option(1, minimum=1, maximum=999_999_999), "plans": Option("predicted", words=("requested", "predicted"))}


def _easy_options(parts: list[str], name: str) -> dict[str, Any]:
    """Remove the options of ``EASY(reservations=k,plans=requested)``; return them as fields."""
    fields: dict[str, Any] = {}
    for at, part in enumerate(parts):
        if match := re.fullmatch(r"EASY\((.+)\)", part):
            parts[at] = "EASY"
            try:
                values = read(parse(match[1].lower()), _EASY)
            except InputError as error:
                takes = "EASY takes reservations=k and plans=requested"
                raise InputError(f"unknown scheduler {name!r}: {error}; {takes}; {grammar()}") from error
            fields = {"reservations": values["reservations"], "by_request": values["plans"] == "requested"}
    return fields


def _parts(text: str) -> list[str]:
    """Split a name at its hyphens, except inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "-" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _planning(name: str, algorithm: str, options: str, rush: Rush | None) -> Scheduler:
    """Return ``PlanRS(OPTIONS)`` or ``OrigBF(OPTIONS)``."""
    if rush is not None:
        raise InputError(f"scheduler {name!r}: {algorithm} does not support start decisions (+RUSH)")
    try:
        values = read(parse(options.lower()), PLANNERS[algorithm])
        if algorithm == "OrigBF":
            return Scheduler(name, algorithm, orig_bf=OrigBF(**values))
        rule = PlanRS(**values)
        if not rule.wait + rule.slowdown + rule.fairness > 0:
            raise InputError("wait, slowdown and fairness are all 0: one of them must weigh something")
        return Scheduler(name, algorithm, plan_rs=rule)
    except InputError as error:
        raise InputError(f"scheduler {name!r}: {error}") from error


def _rush(name: str) -> tuple[str, Rush | None]:
    """Split a name into the part before ``+RUSH(...)`` and its start decisions."""
    match = re.fullmatch(r"(.*)\+RUSH(?:\((.*)\))?", name, re.IGNORECASE)
    if not match:
        return name, None
    try:
        texts = {option.lower(): value for option, value in parse(match[2] or "").items()}
        values = read(texts, _RUSH)
        if "patience" in texts and "skips" not in texts:
            values["skips"] = ANY_SKIPS
        if "cutoff" in texts and values["model"].lower() in UNTRAINED:
            raise InputError(f"{values['model']} gives no probability, so cutoff has no effect")
    except InputError as error:
        raise InputError(f"scheduler {name!r}: RUSH: {error}") from error
    return match[1], Rush(**values)


def _order(text: str, aliases: dict[str, str], name: str) -> Order:
    if scored := re.fullmatch(r"SCORE\((.*)\)", text, re.DOTALL):
        try:
            formula = score(scored[1])
        except InputError as error:
            raise InputError(f"scheduler: {error}" if len(name) > 200 else f"scheduler {name!r}: {error}") from error
        return Order("SCORE", formula.weights, score=formula)
    mixed = re.fullmatch(r"MIXED\(([^;]*)\)", text)
    if mixed:
        try:
            weights = tuple(float(weight) for weight in mixed[1].split(","))
        except ValueError as error:
            raise InputError(f"scheduler {name!r}: the weights of {text} are not all numbers") from error
        if len(weights) not in (3, 6) or not any(weights) or not all(map(math.isfinite, weights)):
            raise InputError(
                f"scheduler {name!r}: MIXED takes 3 or 6 finite weights, not all zero, on n, r, wait, r/n, expansion, r*n"
            )
        return Order("MIXED", weights + NO_WEIGHTS[len(weights) :])
    order = aliases.get(text, text)
    if order not in ORDERS or order == "MIXED":
        raise InputError(f"unknown order {text!r} in scheduler {name!r}; {meant(text, (*ORDERS, *aliases)) or grammar()}")
    return Order(order)


def _meant(base: str, parts: Sequence[str]) -> str:
    """Return a hint: an open bracket, the name that was meant, or else all names."""
    if (opened := base.count("(") - base.count(")")) != 0:
        return "a bracket is not closed" if opened > 0 else "a bracket is closed that was not opened"
    algorithms = {name.upper(): name for name in ALGORITHMS}
    if len(parts) > 1:
        algorithms |= {order: order for order in (*ORDERS, *ALIASES, *ALIASES_BEHIND)}
    likely = [algorithms.get(part) or meant(part, algorithms.values())[len("did you mean ") : -1] for part in parts]
    return f"did you mean {'-'.join(likely)}?" if all(likely) and len(parts) <= 3 else grammar()


def grammar() -> str:
    """Return one line with all scheduler names."""
    return (
        f"known: [ORDER-]ALGORITHM[-BACKFILLORDER]; algorithms {' '.join(ALGORITHMS)}; "
        f"orders {' '.join(order for order in ORDERS if order != 'MIXED')} MIXED(w1,w2,w3) SCORE(FORMULA)"
    )
