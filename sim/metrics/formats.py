"""Format metrics and their changes for readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from features.deferred import pd
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


def predictions(predictor: str) -> str:
    """Return the source of predictions in the words of all tables, pages and figures.

    Requests are users' limits; a registered model answers as served.
    """
    if predictor.startswith("registry:"):
        _, _, alias = predictor.partition("@")
        return f"as served by {alias}" if alias not in ("", "champion") else "as served"
    words = {"requested": "requests", "clairvoyant": "exact runtimes", "champion": "as served"}
    return words.get(predictor, predictor)


def sources(keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """Return each predictor's words; its name where a scheduler has the same words twice."""
    pairs = {key[:2] for key in keys}
    worded = Counter((scheduler, predictions(predictor)) for scheduler, predictor in pairs)
    words = {key: predictions(key[1]) for key in keys}
    return {key: key[1] if worded[key[0], text] > 1 else text for key, text in words.items()}


def combinations(keys: Sequence[tuple[str, str, str]], short: bool = False) -> dict[tuple[str, str, str], str]:
    """Return scheduler / predictions / correction of every combination, in their order.

    A correction is named only if two differ in it alone; where two would have the same words, they keep the predictors' names.
    If ``short`` and all are by requests, that is left out.
    """
    pairs, words = Counter(key[:2] for key in keys), sources(keys)
    one = short and {key[1] for key in keys if key[1]} == {"requested"}
    return {
        key: " / ".join(filter(None, (key[0], "" if one else words[key], key[2] if pairs[key[:2]] > 1 else ""))) for key in keys
    }


def sentence(text: str) -> str:
    """Return ``text`` with a capital and a full stop; "" for ""."""
    return f"{text[0].upper()}{text[1:].removesuffix('.')}." if text else ""
