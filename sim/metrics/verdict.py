"""Weigh slowdown, packing, fairness and longest wait: which combination is best.

A combination that makes one of these surely worse is not best, however much it lowers another. A change is sure if it survives
:func:`features.statistics.surely` among the four changes of every combination that was to be chosen from, and if replicates measure
it: one replay is one draw. What knows the runtimes is a bound and what a site recorded is history: neither can be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from features.statistics import CONFIDENCE, surely
from sim.metrics.formats import change, interval, sentence
from sim.metrics.names import METRICS
from sim.policy import NAMES

WEIGHED = ("mean_bounded_slowdown", "awf_s", "p2sf_s", "longest_wait_s")
"""The metrics of which none may be surely worse; the lowest of the first is best."""
_COSTS = WEIGHED[1:]

Key = tuple[str, str, str]
"""Scheduler, predictor and correction."""


@dataclass(frozen=True)
class Verdict:
    """The ``best`` combination, if any, and the one to three ``sentences`` that say so.

    ``worse`` names of each candidate the metrics that it makes worse: surely, or where no change can be ``sure`` in the one replay.
    """

    baseline: Key
    best: Key | None
    worse: Mapping[Key, tuple[str, ...]]
    sure: bool
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    def record(self, key: Key) -> dict[str, Any]:
        """Return what JSON says of a combination: ``best worse verdict``."""
        return {"best": key == self.best, "worse": list(self.worse.get(key, ())), "verdict": self.text}


def verdict(comparison: pd.DataFrame, baseline: Sequence[str] = (), confidence: float = CONFIDENCE) -> Verdict:
    """Weigh the rows of ``comparison`` against the ``baseline``.

    Rows ``scheduler predictor correction metric relative low high p replicates note``, one a combination and metric of
    :data:`WEIGHED` at least, as of :func:`sim.metrics.comparison.compare`. ``baseline`` is a scheduler and predictor, by
    default those of the first row.
    """
    weighed = comparison[comparison["metric"].isin(WEIGHED)]
    keys, names = _keys(weighed), policy_labels(weighed)
    base = next(key for key in keys if key[: len(baseline)] == tuple(baseline))
    candidates = [key for key in keys if key != base and key[1] and not is_bound(key[1])]
    if not candidates:
        return Verdict(base, None, {}, False, (f"There is nothing to choose from beside {names[base]}.",))
    weighed = weighed[[key in candidates for key in weighed[list(NAMES)].itertuples(index=False, name=None)]]
    sure = surely(weighed["p"].where(weighed["replicates"] > 1), confidence)
    rows: dict[Key, dict[str, Any]] = {key: {} for key in candidates}
    for row in weighed.assign(sure=sure).to_dict("records"):
        rows[row["scheduler"], row["predictor"], row["correction"]][row["metric"]] = row
    some = bool((weighed["p"].notna() & (weighed["replicates"] > 1)).any())
    worse = {key: tuple(name for name in WEIGHED if _changes(rows[key][name], 1, some)) for key in candidates}
    ranked = sorted(candidates, key=lambda key: _relative(rows[key][WEIGHED[0]]))
    sound = [key for key in ranked if not worse[key] and any(_changes(rows[key][name], -1, some) for name in WEIGHED)]
    if not some:
        return Verdict(base, None, worse, False, tuple(_unsure(rows, ranked, sound, names, base)))
    best = sound[0] if sound else None
    family = int((weighed["p"].notna() & (weighed["replicates"] > 1)).sum())
    how = f"Sure means at {100 * confidence:g} % for {family} changes together, over {int(weighed['replicates'].min())} replays."
    return Verdict(base, best, worse, True, (*_sure(rows, worse, ranked, best, names, base), how))


def is_bound(predictor: str) -> bool:
    """Tell whether ``predictor`` knows the runtimes: a bound, and nothing that a site can do."""
    return predictor.partition("*")[0] == "clairvoyant"


def policy_labels(table: pd.DataFrame) -> dict[Key, str]:
    """Return scheduler / predictor / correction, without the parts that all share.

    In order of appearance. A recorded schedule has its name alone.
    """
    keys = _keys(table)
    shown = [place for place in range(len(NAMES)) if place == 0 or len({key[place] for key in keys if key[1]}) > 1]
    return {key: " / ".join(key[place] for place in shown if key[place]) for key in keys}


def _keys(table: pd.DataFrame) -> list[Key]:
    return list(dict.fromkeys(table[list(NAMES)].itertuples(index=False, name=None)))


def _changes(row: Mapping[str, Any], direction: int, only_sure: bool) -> bool:
    return (row["sure"] or not only_sure) and not pd.isna(row["relative"]) and row["relative"] * direction > 0


def _relative(row: Mapping[str, Any]) -> float:
    return float("inf") if pd.isna(row["relative"]) else float(row["relative"])


def _size(row: Mapping[str, Any]) -> str:
    return f"{change(row['relative'])} {interval(row['low'], row['high'], row.get('coverage'))}".rstrip()


def _sizes(rows: Mapping[str, Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """Return metrics with their changes, as a list in words."""
    parts = [f"{METRICS[name].title} ({_size(rows[name])})" for name in metrics]
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _sure(
    rows: Mapping[Key, Mapping[str, Mapping[str, Any]]],
    worse: Mapping[Key, Sequence[str]],
    ranked: Sequence[Key],
    best: Key | None,
    names: Mapping[Key, str],
    base: Key,
) -> Iterator[str]:
    """Yield what the ``best`` changes, and why the one of the lowest slowdown is another."""
    of = f" (of {len(ranked)} combinations)" if len(ranked) > 1 else ""
    if best is None:
        yield f"No combination{of} is surely better than {names[base]} without making something surely worse."
    else:
        lowered = [name for name in WEIGHED if _changes(rows[best][name], -1, True)]
        rest = [name for name in WEIGHED if name not in lowered]
        lead = f"{names[best]} is best{of}: against {names[base]} it surely lowers {_sizes(rows[best], lowered)}"
        yield lead + (f", and {_sizes(rows[best], rest)} {'do' if len(rest) > 1 else 'does'} not surely change." if rest else ".")
    if ranked[0] != best:
        row, costs = rows[ranked[0]], worse[ranked[0]]
        why = f"it makes {_sizes(row, costs)} surely worse" if costs else "the change is not sure"
        yield f"The lowest slowdown is that of {names[ranked[0]]} ({_size(row[WEIGHED[0]])}); {why}."


def _unsure(
    rows: Mapping[Key, Mapping[str, Mapping[str, Any]]],
    ranked: Sequence[Key],
    sound: Sequence[Key],
    names: Mapping[Key, str],
    base: Key,
) -> Iterator[str]:
    """Yield the sentences where nothing can be sure: one replay, or too few weeks."""
    first = rows[ranked[0]][WEIGHED[0]]
    why = "one replay of each is one draw" if first["replicates"] == 1 else first["note"] or "nothing varies"
    yield sentence(f"{why}: no combination is surely better than {names[base]}")
    if _relative(first) >= 0:
        yield f"None has a lower {METRICS[WEIGHED[0]].title}."
        return
    yield f"{names[ranked[0]]} has the lowest slowdown: {_sizes(rows[ranked[0]], WEIGHED)}."
    costs = " or ".join(METRICS[name].title for name in _COSTS)
    free = [key for key in sound if _relative(rows[key][WEIGHED[0]]) < 0]
    if free and free[0] != ranked[0]:
        yield f"Without more {costs} it is that of {names[free[0]]} ({_size(rows[free[0]][WEIGHED[0]])})."
    elif not free:
        yield f"Each that lowers it raises {costs}."
