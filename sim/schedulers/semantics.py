"""Semantics: the order of events, and the causes of a scheduling pass.

Two semantics are published. ``per-second`` (Goponenko et al. 2022): all events of a second, ends first, then submissions in file
order, then one pass. ``per-event`` (Gaussier et al. 2015): one event at a time, submissions before ends, each followed by a pass.
In both an expired prediction only extends the plan of running jobs. Options add passes while jobs wait: ``expiry=pass`` whenever
a running job outlives its prediction, as in Li & Zhang (OKCM); ``every=N`` at each multiple of N of the trace's seconds, as a
timer does. In ``per-event``, the pass for all expiries of a second precedes its events; the timer's follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from features.errors import InputError, unknown
from models.runtime.options import check_known, chosen, named, whole

SEMANTICS = ("per-second", "per-event")
EXPIRY = ("plan", "pass")
"""Effects of an expired prediction: a longer plan, or also a pass."""
_USUAL = {"expiry": "plan", "every": "0"}
_LONGEST_S = 10**9


@dataclass(frozen=True)
class Semantics:
    """Semantics as settings.

    ``per_event``: one event at a time. ``expiry_pass``: a pass at expired predictions. ``every_s``: period of timed passes, 0:
    none.
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
        for option in options:
            check_known(option, tuple(_USUAL))
        expiry = chosen(f"expiry={options.get('expiry')}", options.get("expiry", _USUAL["expiry"]), EXPIRY)
        every_s = whole(f"every={options['every']}", options["every"], minimum=1, maximum=_LONGEST_S) if "every" in options else 0
    except InputError as error:
        raise InputError(f"semantics {name}: {error}") from error
    return Semantics(plain == "per-event", expiry == "pass", every_s)
