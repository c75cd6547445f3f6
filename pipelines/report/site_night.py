"""The Slurm site of a trace on pages: on a night's page, and on top of its own pages."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pipelines.report.table import Row, Table
from pipelines.workflows.what_if import NOT_JUDGED
from sim.explained import Fall
from sim.metrics.formats import change, interval
from sim.slurm.site import Site
from sim.what_if import WEIGHED


@dataclass(frozen=True)
class SiteNight:
    """The results of a run or a night for a trace's site.

    ``days`` is a table of :func:`sim.explained.by_day`, ``parity`` has sentences on the replays, ``fall`` is the alarm or "".
    ``changes`` are the records of ``queuecast whatif``, ``answer`` its sentences.
    """

    days: pd.DataFrame
    parity: Sequence[str]
    fall: str
    changes: pd.DataFrame
    answer: Sequence[str]

    @property
    def weeks(self) -> Table:
        """Return the share of explained decisions week by week."""
        monday = pd.to_datetime(self.days["day"]).dt.to_period("W").dt.start_time.dt.strftime("%Y-%m-%d")
        of = self.days.groupby(monday)[["starts", "explained", "extra"]].sum()
        rows: list[Row] = [
            [str(week), f"{starts:,}", f"{explained / max(starts + extra, 1):.0%}", f"{extra:,}"]
            for week, starts, explained, extra in of.reset_index().itertuples(index=False)
        ]
        return Table("Decisions explained", ["week from", "starts after a wait", "explained", "starts that did not happen"], rows)

    @property
    def candidates(self) -> Table:
        """Return the change of the mean wait under each candidate that was judged."""
        of = self.changes[(self.changes["metric"] == WEIGHED[0]) & ~self.changes["verdict"].isin(NOT_JUDGED)]
        rows: list[Row] = [
            [row["candidate"], row["verdict"], change(row["change"]), interval(row["low"], row["high"])]
            for row in of.to_dict("records")
        ]
        return Table("What to change", ["candidate", "verdict", "mean wait", "interval"], rows, left=["verdict"])


def warnings_of(site: Site) -> list[str]:
    """Return the warnings at the top of every page of a site."""
    return [f"{text} changes decisions and is not modelled." for text in site.warnings]


def not_modelled(site: Site) -> list[str]:
    """Return a note on the keys that are not modelled, if any."""
    return [f"Not modelled: {', '.join(site.not_modelled)}."] if site.not_modelled else []


def fallen(fall: Fall | None) -> str:
    """Return a sentence on a fall of explained decisions and its possible cause, or ""."""
    if fall is None:
        return ""
    return (
        f"decisions explained fell from {fall.before:.0%} to {fall.after:.0%} on {fall.day}: "
        "were settings, limits or nodes changed that day?"
    )
