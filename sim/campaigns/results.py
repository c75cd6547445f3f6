"""What a campaign returns: its simulations, and what they say."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd


class Results(pd.DataFrame):
    """Simulations, a row each, compared with the first policy.

    ``summary`` is that of :func:`sim.campaigns.window_comparison.over_windows`, ``pooled``, of several traces, that of
    :func:`sim.campaigns.pooling.over_traces`, else None. A part of the rows is a plain table.
    """

    _metadata: ClassVar[list[str]] = ["summary", "pooled"]
    summary: pd.DataFrame
    pooled: pd.DataFrame | None

    @property
    def overall(self) -> pd.DataFrame:
        """Return what a verdict is of: all traces together, or the one."""
        return self.summary if self.pooled is None else self.pooled
