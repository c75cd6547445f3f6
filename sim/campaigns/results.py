"""The result of a campaign: its simulations, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pandas as pd

from sim.campaigns.pooling import over_traces
from sim.campaigns.window_comparison import by_setting, over_windows
from sim.metrics.verdict import verdict


class Results(pd.DataFrame):
    """Simulations, one row each, compared with the first policy.

    ``summary`` comes from :func:`sim.campaigns.window_comparison.over_windows`. ``pooled`` comes from
    :func:`sim.campaigns.pooling.over_traces`, None for a single trace. A part of the rows is a plain table.
    """

    _metadata: ClassVar[list[str]] = ["summary", "pooled"]
    summary: pd.DataFrame
    pooled: pd.DataFrame | None

    @classmethod
    def of(cls, rows: pd.DataFrame, windows: str, suite: Mapping[str, str] | None = None) -> Results:
        """Return ``rows`` of simulations with their comparison.

        ``windows`` is the split. ``suite`` has by trace the name under which it is pooled; without one, none are pooled.
        """
        results = cls(rows)
        results.summary = over_windows(results)
        results.pooled = over_traces(results.summary, suite) if suite and len(set(suite.values())) < len(suite) else None
        text = "\n".join(verdict(part).text for part in by_setting(results.overall))
        results.attrs |= {"generated": bool(results["generated"].any()), "windows": windows, "verdict": text}
        return results

    @property
    def overall(self) -> pd.DataFrame:
        """Return the table for a verdict: all traces pooled, or the only one."""
        return self.summary if self.pooled is None else self.pooled

    @property
    def verdict(self) -> str:
        """Return in words which policy is best, a line per trace or load and setting."""
        return str(self.attrs["verdict"])
