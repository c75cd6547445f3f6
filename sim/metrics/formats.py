"""Format metrics and their changes for readers."""

from __future__ import annotations

import pandas as pd

from features.statistics import covers
from sim.metrics.names import Kind

MINUS = "\N{MINUS SIGN}"


def number(value: float, kind: Kind) -> str:
    """Format a metric: seconds and counts whole, shares in per cent, ratios with two decimals.

    A dash if it is missing.
    """
    if pd.isna(value):
        return "–"
    if kind == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,.2f}" if kind == "ratio" else f"{value:,.0f}"


def signed(value: float, form: str) -> str:
    """Format a difference with its sign, without sign if it rounds to zero."""
    text = format(value, "+" + form)
    return text[1:] if float(text.replace(",", "")) == 0 else text.replace("-", MINUS)


def change(relative: float, unit: bool = True) -> str:
    """Format a relative change in per cent with its sign."""
    if pd.isna(relative):
        return "–"
    return signed(100 * relative, ",.1f") + (" %" if unit else "")


def interval(low: float, high: float, coverage: float | None = None) -> str:
    """Format a confidence interval of a relative change, per cent, in brackets; "" for none.

    A low measured ``coverage`` follows it.
    """
    return "" if pd.isna(low) else f"[{change(low, unit=False)}, {change(high, unit=False)}]{covers(coverage)}"


def sentence(text: str) -> str:
    """Return ``text`` with a capital and a full stop; "" for ""."""
    return f"{text[0].upper()}{text[1:].removesuffix('.')}." if text else ""
