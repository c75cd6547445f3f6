"""Scheduler names: ``[ORDER-]ALGORITHM[-BACKFILLORDER]`` becomes a :class:`Scheduler`. A missing order is FCFS, in front and behind."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from features.errors import InputError
from sim.orders import ALIASES, ALIASES_BEHIND, NO_WEIGHTS, ORDERS, STANDARDISED
from sim.passes import CONSERVATIVE, EASY, JUSTBF, LIST, STRICT

ALGORITHMS: dict[str, int] = {"EASY": EASY, "JustBF": JUSTBF, "Conservative": CONSERVATIVE, "List": LIST, "Strict": STRICT}
BACKFILLING = ("EASY",)
"""Algorithms that take an order of their own for backfilling; the others have one queue."""
PLANNING = ("JustBF", "Conservative")
"""Algorithms that plan every waiting job."""


@dataclass(frozen=True)
class Order:
    """A queue order; ``weights`` of a mixed policy on (n, r, wait, r/n, expansion, r n), its features raw or ``standardised``."""

    name: str = "FCFS"
    weights: tuple[float, ...] = NO_WEIGHTS
    standardised: bool = False

    @property
    def code(self) -> int:
        """Integer of :mod:`sim.orders`."""
        return STANDARDISED if self.standardised else ORDERS[self.name]


@dataclass(frozen=True)
class Scheduler:
    """A scheduling algorithm with the order of its queue and, where it backfills, the order of the candidates."""

    name: str
    algorithm: str
    order: Order = field(default_factory=Order)
    backfill: Order = field(default_factory=Order)
    reservations: int = 1


def scheduler(name: str) -> Scheduler:
    """The scheduler called ``name``, in any case of letters; InputError with the list of what is known for any other name."""
    known = {algorithm.upper(): algorithm for algorithm in ALGORITHMS}
    stated = re.search(r"EASY\(RESERVATIONS=([1-9]\d{0,8})\)", name.upper())
    plain = name.upper().replace(stated[0], "EASY") if stated else name.upper()
    parts = re.split(r"-(?![^(]*\))", plain)  # at hyphens, but not at signs between brackets
    at = next((i for i, part in enumerate(parts) if part in known), None)
    if at is None or at > 1 or len(parts) > at + 2:
        raise InputError(f"unknown scheduler {name!r}: {grammar()}")
    algorithm = known[parts[at]]
    order = _order(parts[0], ALIASES, name) if at == 1 else Order()
    if algorithm == "Conservative" and order != Order():
        raise InputError(
            f"scheduler {name!r}: Conservative goes by reservations, which are given in order of submission, and takes no other order"
        )
    reservations = int(stated[1]) if stated else 1
    if len(parts) == at + 1:
        return Scheduler(name, algorithm, order, Order() if algorithm in BACKFILLING else order, reservations)
    if algorithm not in BACKFILLING:
        raise InputError(f"unknown scheduler {name!r}: {algorithm} has one queue and takes no order behind it; {grammar()}")
    return Scheduler(name, algorithm, order, _order(parts[at + 1], ALIASES_BEHIND, name), reservations)


def _order(text: str, aliases: dict[str, str], name: str) -> Order:
    mixed = re.fullmatch(r"MIXED\(([^;]*)(;STANDARDISED)?\)", text)
    if mixed:
        try:
            weights = tuple(float(weight) for weight in mixed[1].split(","))
        except ValueError as error:
            raise InputError(f"scheduler {name!r}: the weights of {text} are not all numbers") from error
        if len(weights) not in (3, 6) or not any(weights) or not all(map(math.isfinite, weights)):
            raise InputError(
                f"scheduler {name!r}: MIXED takes 3 or 6 finite weights, not all zero, on n, r, wait, r/n, expansion, r*n"
            )
        return Order("MIXED", weights + NO_WEIGHTS[len(weights) :], standardised=mixed[2] is not None)
    order = aliases.get(text, text)
    if order not in ORDERS or order == "MIXED":
        raise InputError(f"unknown order {text!r} in scheduler {name!r}: {grammar()}")
    return Order(order)


def grammar() -> str:
    """One line that says which scheduler names there are."""
    orders = " ".join(order for order in ORDERS if order != "MIXED")
    return (
        f"known are [ORDER-]ALGORITHM[-BACKFILLORDER] with algorithms {' '.join(ALGORITHMS)} EASY(reservations=k) (only EASY takes a backfill "
        f"order) and orders {orders} MIXED(w1,w2,w3) MIXED(w1,...,w6) MIXED(...;standardised) (SJF for SPF, WFP for WFP3; EASY-SJBF is FCFS-EASY-SPF)"
    )
