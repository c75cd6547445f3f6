"""Scheduler names: ``[ORDER-]ALGORITHM[-BACKFILLORDER]`` becomes a :class:`Scheduler`. A missing order is FCFS, in front and behind."""

from __future__ import annotations

from dataclasses import dataclass

from features.errors import InputError
from sim.orders import ALIASES, ALIASES_BEHIND, ORDERS
from sim.passes import EASY, LIST, STRICT

ALGORITHMS: dict[str, int] = {"EASY": EASY, "List": LIST, "Strict": STRICT}
BACKFILLING = ("EASY",)
"""Algorithms that take an order of their own for backfilling."""


@dataclass(frozen=True)
class Scheduler:
    """A scheduling algorithm with the order of its queue and, where it backfills, the order of the candidates."""

    name: str
    algorithm: str
    order: str = "FCFS"
    backfill: str = "FCFS"


def scheduler(name: str) -> Scheduler:
    """The scheduler called ``name``, in any case of letters; InputError with the list of what is known for any other name."""
    known = {algorithm.upper(): algorithm for algorithm in ALGORITHMS}
    parts = name.upper().split("-")
    at = next((i for i, part in enumerate(parts) if part in known), None)
    if at is None or at > 1 or len(parts) > at + 2:
        raise InputError(f"unknown scheduler {name!r}: {grammar()}")
    algorithm = known[parts[at]]
    order = _order(parts[0], ALIASES, name) if at == 1 else "FCFS"
    if len(parts) == at + 1:
        # EASY's candidates come in the order of submission unless told otherwise; the others have one queue only
        return Scheduler(name, algorithm, order, "FCFS" if algorithm in BACKFILLING else order)
    if algorithm not in BACKFILLING:
        raise InputError(f"unknown scheduler {name!r}: {algorithm} has one queue and takes no order behind it; {grammar()}")
    return Scheduler(name, algorithm, order, _order(parts[at + 1], ALIASES_BEHIND, name))


def _order(text: str, aliases: dict[str, str], name: str) -> str:
    order = aliases.get(text, text)
    if order not in ORDERS:
        raise InputError(f"unknown order {text!r} in scheduler {name!r}: {grammar()}")
    return order


def grammar() -> str:
    """One line that says which scheduler names there are."""
    orders = " ".join(ORDERS)
    return f"known are [ORDER-]ALGORITHM[-BACKFILLORDER] with algorithms {' '.join(ALGORITHMS)} and orders {orders} (SJF for SPF; EASY-SJBF for FCFS-EASY-SPF)"
