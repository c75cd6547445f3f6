"""Read the options of ``Rollout`` (:mod:`sim.choices`)."""

from __future__ import annotations

from dataclasses import dataclass

from features.errors import InputError
from models.runtime.options import check_known, chosen, number, parse, whole

MOST_SCENARIOS = 1024
LONGEST_S = 10**9
SEPARATOR = "+"
PLANS = ("predicted", "requested")


@dataclass(frozen=True)
class Rollout:
    """The names of the policies of ``Rollout(...)``, and how one of them is chosen."""

    policies: tuple[str, ...] = ("EASY", "EASY-SJBF", "EASY-SRF", "SAF-EASY", "SPF-EASY", "WFP3-EASY", "SRF-EASY")
    """The first decides until the first choice, and in ties."""
    scenarios: int = 16
    """Number of scenarios in which each policy runs ahead."""
    every: int = 60
    """Min time from one choice to the next, seconds."""
    plans: str = PLANS[0]
    """Whether plans use predicted or requested runtimes; with ``requested`` predictions only order the queue."""
    slowdown: float = 1.0
    awf: float = 1.0
    p2sf: float = 1.0
    """Weights of the relative changes of mean bounded slowdown, AWF and P2SF in the cost that is minimised."""


def rollout(text: str) -> Rollout:
    """Return the options of ``Rollout(TEXT)``; InputError for unknown options and values.

    The names of policies are not looked up.
    """
    read: dict[str, object] = {}
    for option, value_text in parse(text).items():
        check_known(option, tuple(Rollout.__dataclass_fields__))
        assignment = f"{option}={value_text}"
        if option == "policies":
            read[option] = tuple(name.strip() for name in value_text.split(SEPARATOR))
        elif option == "scenarios":
            read[option] = whole(assignment, value_text, minimum=1, maximum=MOST_SCENARIOS)
        elif option == "every":
            read[option] = whole(assignment, value_text, minimum=1, maximum=LONGEST_S)
        elif option == "plans":
            read[option] = chosen(assignment, value_text, PLANS)
        else:
            read[option] = number(assignment, value_text, minimum=0.0)
    rule = Rollout(**read)  # type: ignore[arg-type]
    if not rule.slowdown + rule.awf + rule.p2sf > 0:
        raise InputError("slowdown, awf and p2sf are all 0: one of them must weigh something")
    return rule
