"""Read the options of ``PlanRS`` and ``OrigBF`` (Klusacek & Chlumsky 2016)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from features.errors import InputError
from models.runtime.options import check_known, chosen, number, parse, whole

MOST_ITERATIONS = 10**6
LONGEST_S = 10**9
_RESERVATIONS = ("kept", "anew")


@dataclass(frozen=True)
class PlanRS:
    """The options of ``PlanRS(...)``."""

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
    """The options of ``OrigBF(...)``."""

    reservations: str = "kept"
    """Whether reservations are ``kept`` when the order changes, or made ``anew`` at each pass."""


def plan_rs(text: str) -> PlanRS:
    """Return the options of ``PlanRS(TEXT)``; InputError for unknown options and values."""
    read: dict[str, float] = {}
    for option, value in parse(text).items():
        check_known(option, tuple(asdict(PlanRS())))
        assignment = f"{option}={value}"
        if option == "iterations":
            read[option] = whole(assignment, value, minimum=0, maximum=MOST_ITERATIONS)
        elif option == "interval":
            read[option] = whole(assignment, value, minimum=1, maximum=LONGEST_S)
        else:
            read[option] = number(assignment, value, minimum=0.0)
    rule = PlanRS(**read)  # type: ignore[arg-type]
    if not rule.wait + rule.slowdown + rule.fairness > 0:
        raise InputError("wait, slowdown and fairness are all 0: one of them must weigh something")
    return rule


def orig_bf(text: str) -> OrigBF:
    """Return the options of ``OrigBF(TEXT)``; InputError for unknown options and values."""
    options = parse(text)
    for option in options:
        check_known(option, ("reservations",))
    return OrigBF(**{option: chosen(f"{option}={value}", value, _RESERVATIONS) for option, value in options.items()})
