"""The result of a campaign: its simulations, and their comparison."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd


class Results(pd.DataFrame):
    """Simulations, one row each, compared with the first policy.

    ``summary`` comes from :func:`sim.campaigns.window_comparison.over_windows`. ``pooled`` comes from
    :func:`sim.campaigns.pooling.over_traces`, None for a single trace. A part of the rows is a plain table.
    """

    _metadata: ClassVar[list[str]] = ["summary", "pooled"]
    summary: pd.DataFrame
    pooled: pd.DataFrame | None

    @property
    def overall(self) -> pd.DataFrame:
        """Return the table for a verdict: all traces pooled, or the only one."""
        return self.summary if self.pooled is None else self.pooled

    @property
    def verdict(self) -> str:
        """Return in words which policy is best, a line per trace or load and setting."""
        return str(self.attrs["verdict"])
