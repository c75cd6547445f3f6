"""Read the options of ``PlanRS`` and ``OrigBF`` (Klusacek & Chlumsky 2016)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from features.errors import InputError
from models.runtime.options import check_known, chosen, number, parse, whole
from sim.kernel.planning_criteria import SPREADS

MOST_ITERATIONS = 10**9
LONGEST_S = 10**9


@dataclass(frozen=True)
class PlanRS:
    """The options of ``PlanRS(...)``.

    Each states what the authors leave open; docs/reference/names.md has all of it.
    """

    iterations: int = 300
    """Iterations of one search; 0 for no search."""
    per: str = "search"
    """``cluster``: that many iterations for the jobs of each cluster, one cluster after the other."""
    interval: int = 60
    """Min time from one search to the next, seconds."""
    clock: str = "moment"
    """Whether the interval counts from the ``moment`` of a search or from its ``end``, which is ``takes`` seconds later."""
    takes: int = 0
    """How long a search takes in simulated time, seconds; its plan holds at once."""
    limit: float = 0.0
    """Wall time after which a search is interrupted, seconds; 0 for none. With a limit, no run can be repeated exactly."""
    wait: float = 1.0
    slowdown: float = 1.0
    fairness: float = 10.0
    """Weights of the relative improvements."""
    width: str = "none"
    """``sqrt``: waits and slowdowns count times the square root of the job's processors."""
    bound: int = 10
    """The threshold of bounded slowdown, seconds; 0 for slowdown."""
    spread: str = "sum"
    """How mean and standard deviation of NUWT become one number: ``sum``, or ``squares``, the sum of (1 + mean - NUWT)^2."""
    usage: str = "mean"
    """A user's usage on a machine with memory: ``mean`` or ``larger`` of the shares of processors and memory, or ``procs``."""
    least: float = 3600.0
    """Min of each user's usage, processor-seconds."""

    @property
    def every_s(self) -> int:
        """The time from one search to the next, seconds."""
        return self.interval + (self.takes if self.clock == "end" else 0)


@dataclass(frozen=True)
class OrigBF:
    """The options of ``OrigBF(...)``."""

    queues: str = "walltime"
    """By requests up to 1 h, 2 h, 1 d, 2 d, 4 d, 1 w, 2 w, 2 months and more; the ``trace``'s by longest request; or ``one``."""
    priority: str = "short"
    """Whether the queue of the shortest (``short``) or of the longest (``long``) requests comes first."""
    reorder: int = 0
    """Seconds from one order by fair share to the next; 0: at each pass."""
    reservations: str = "kept"
    """Whether reservations are ``kept`` when the order changes, or made ``anew`` at each pass."""
    threshold: int = 0
    """How long a job must have waited before it gets a reservation, seconds."""
    decay: float = 72.0
    """Hours after which usage is halved; 0 for never."""
    usage: str = "procs"
    """A user's usage: as in PlanRS."""

    @property
    def every_s(self) -> int:
        """The time from one order to the next, seconds."""
        return self.reorder


PRESETS = {
    "paper": PlanRS(),
    "program": PlanRS(iterations=30, per="cluster", clock="moment", width="sqrt", bound=0, spread="squares", usage="larger"),
}
_CHOICES = {
    "per": ("search", "cluster"),
    "clock": ("moment", "end"),
    "width": ("none", "sqrt"),
    "spread": SPREADS,
    "usage": ("mean", "larger", "procs"),
    "queues": ("walltime", "trace", "one"),
    "priority": ("short", "long"),
    "reservations": ("kept", "anew"),
}
_WHOLE = {
    **{"iterations": (0, MOST_ITERATIONS), "interval": (1, LONGEST_S), "takes": (0, LONGEST_S)},
    **{"reorder": (0, LONGEST_S), "threshold": (0, LONGEST_S), "bound": (0, LONGEST_S)},
}


def plan_rs(text: str) -> PlanRS:
    """Return the options of ``PlanRS(TEXT)``; InputError for unknown options and values.

    The others come from ``preset``: ``paper`` or ``program``.
    """
    options = parse(text)
    preset = chosen(f"preset={options.get('preset')}", options.pop("preset", "paper"), tuple(PRESETS))
    rule = replace(PRESETS[preset], **_read(options, PRESETS[preset]))  # type: ignore[arg-type]
    if not rule.wait + rule.slowdown + rule.fairness > 0:
        raise InputError("wait, slowdown and fairness are all 0: one of them must weigh something")
    return rule


def orig_bf(text: str) -> OrigBF:
    """Return the options of ``OrigBF(TEXT)``; InputError for unknown options and values."""
    return OrigBF(**_read(parse(text), OrigBF()))  # type: ignore[arg-type]


def _read(chosen_options: dict[str, str], usual: PlanRS | OrigBF) -> dict[str, object]:
    options = (*asdict(usual), "preset") if isinstance(usual, PlanRS) else tuple(asdict(usual))
    read: dict[str, object] = {}
    for option, value_text in chosen_options.items():
        check_known(option, options)
        assignment = f"{option}={value_text}"
        if option in _CHOICES:
            read[option] = chosen(assignment, value_text, _CHOICES[option])
        elif option in _WHOLE:
            minimum, maximum = _WHOLE[option]
            read[option] = whole(assignment, value_text, minimum=minimum, maximum=maximum)
        elif option == "least":
            read[option] = number(assignment, value_text, minimum=1.0)
        else:
            read[option] = number(assignment, value_text, minimum=0.0)
    return read
