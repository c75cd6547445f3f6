"""A change of a Slurm site and of its load, and the lines that make it.

A site and jobs in, a changed site and jobs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from features.errors import InputError
from sim.site.changes import KINDS, Changed, KindOfChange, MinTimeLimits, TimeLimits
from sim.site.lines import partition_lines
from sim.slurm.site import Site


@dataclass(frozen=True)
class SiteChange:
    """A change that a site can make, of one or more kinds (:mod:`sim.site.changes`).

    ``what`` says what it does and ``risk`` what may go wrong.
    """

    name: str
    what: str = ""
    risk: str = ""
    changes: tuple[KindOfChange, ...] = ()

    @property
    def resources(self) -> bool:
        """Tell whether it is of nodes, which are no settings."""
        return any(change.resources for change in self.changes)

    @property
    def limits(self) -> tuple[TimeLimits | MinTimeLimits, ...]:
        """Return the changes of limits."""
        return tuple(change for change in self.changes if isinstance(change, TimeLimits | MinTimeLimits))


TEXTS = ("name", "what", "risk")
"""The members of a candidate that are no change."""


def site_change(name: str, what: str = "", risk: str = "", **kinds: Any) -> SiteChange:
    """Return a change of ``kinds``, values by the keys of :data:`sim.site.changes.KINDS`."""
    return SiteChange(name, what, risk, tuple(KINDS[key](kinds[key]) for key in KINDS if key in kinds))


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
