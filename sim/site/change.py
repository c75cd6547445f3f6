"""A change of a Slurm site and of its load, and the lines that make it.

A site and jobs in, a changed site and jobs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from features.errors import InputError
from sim.site.changes import KINDS, Changed, KindOfChange, MinTimeLimits, OtherRule, TimeLimits
from sim.site.lines import partition_lines
from sim.slurm.site import Site


@dataclass(frozen=True)
class SiteChange:
    """A change that a site can make, of one or more kinds (:mod:`sim.site.changes`).

    ``what`` says what it does and ``risk`` what may go wrong. ``slow``, if set, says that a replay takes minutes on large sites.
    """

    name: str
    what: str = ""
    risk: str = ""
    slow: str = ""
    changes: tuple[KindOfChange, ...] = ()

    @property
    def resources(self) -> bool:
        """Tell whether it is of nodes or demand, which are no settings."""
        return any(change.resources for change in self.changes)

    @property
    def rule(self) -> OtherRule | None:
        """Return the scheduler that Slurm does not have, if it is one."""
        return next((change for change in self.changes if isinstance(change, OtherRule)), None)

    @property
    def bound(self) -> bool:
        """Tell whether its scheduler knows what no site can know."""
        return self.rule is not None and self.rule.bound

    @property
    def limits(self) -> tuple[TimeLimits | MinTimeLimits, ...]:
        """Return the changes of limits."""
        return tuple(change for change in self.changes if isinstance(change, TimeLimits | MinTimeLimits))


TEXTS = ("name", "what", "risk", "slow")
"""The members of a candidate that are no change."""


def site_change(name: str, what: str = "", risk: str = "", slow: str = "", **kinds: Any) -> SiteChange:
    """Return a change of ``kinds``, values by the keys of :data:`sim.site.changes.KINDS`."""
    return SiteChange(name, what, risk, slow, tuple(KINDS[key](kinds[key]) for key in KINDS if key in kinds))


def change(candidate: SiteChange, site: Site, jobs: pd.DataFrame, seed: int = 0) -> Changed | None:
    """Return the site and jobs after a change; None if it changes nothing here.

    ``jobs`` has the columns of :data:`sim.slurm.requests.COLUMNS`. Raises InputError for unknown keys, names or values.
    """
    now = Changed(site, jobs)
    try:
        for step in candidate.changes:
            now = step.apply(now, seed)
    except InputError as error:
        raise InputError(f"candidate {candidate.name!r}: {error}") from None
    for name, part in now.site.partitions.items():
        now = now.having(*partition_lines(part, site.partitions.get(name)))
    return now if now.lines else None
