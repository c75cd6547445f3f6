"""Weigh slowdown, packing, fairness and longest wait: which combination is best.

The best has the lowest slowdown of those that surely lower it and raise none of the four. A change is sure if it survives
:func:`features.statistics.surely` among the changes of the same metric under all candidates, and if replicates measure it: one
replay is one sample. A rise need not be sure to count: the correction for many candidates guards against a lucky gain, and would
hide a cost. It counts if its own interval lies above 0. A predictor that knows the runtimes is a bound, and a record is history:
neither can be chosen.

Metrics and their changes are formatted here for all readers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from features.deferred import pd
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, covers, surely
from sim.metrics.names import METRICS, Kind
from sim.policy import NAMES

WEIGHED = ("mean_bounded_slowdown", "awf_s", "p2sf_s", "longest_wait_s")
"""The metrics none of which the best may raise; the first decides."""
_COSTS = WEIGHED[1:]

Key = tuple[str, str, str]
"""Scheduler, predictor and correction."""


@dataclass(frozen=True)
class Verdict:
    """The ``best`` combination, if any, and the one to three ``sentences`` that say so.

    ``how`` says what sure means. ``worse`` and ``better`` name for each candidate the metrics that it surely changes.
    If nothing can be ``sure``, ``worse`` names those that are higher in the one replay.
    """

    baseline: Key
    best: Key | None
    worse: Mapping[Key, tuple[str, ...]]
    better: Mapping[Key, tuple[str, ...]]
    sure: bool
    sentences: tuple[str, ...]
    how: str = ""

    @property
    def text(self) -> str:
        return " ".join(filter(None, (*self.sentences, self.how)))

    def tone(self, key: Key, metric: str) -> str:
        """Return ``better`` or ``worse`` if a combination surely changes ``metric``, else ""."""
        if metric in self.better.get(key, ()):
            return "better"
        return "worse" if self.sure and metric in self.worse.get(key, ()) else ""

    def record(self, key: Key) -> dict[str, Any]:
        """Return the JSON entries of a combination: ``best worse verdict``."""
        return {"best": key == self.best, "worse": list(self.worse.get(key, ())), "verdict": self.text}


def verdict(comparison: pd.DataFrame, baseline: Sequence[str] = (), confidence: float = CONFIDENCE) -> Verdict:
    """Weigh the rows of ``comparison`` against the ``baseline``.

    Rows ``scheduler predictor correction metric relative low high p replicates note``, one per combination and metric of
    :data:`WEIGHED` at least, as from :func:`sim.metrics.comparison.compare`; with a column ``traces`` they are pooled over these.
    ``baseline`` is a scheduler and predictor, by default those of the first row.
    """
    weighed = comparison[comparison["metric"].isin(WEIGHED)]
    keys, names = _keys(weighed), _short(policy_labels(weighed))
    base = next(key for key in keys if key[: len(baseline)] == tuple(baseline))
    candidates = [key for key in keys if key != base and key[1] and not is_bound(key[1])]
    if not candidates:
        return _alone(base, names[base])
    weighed = weighed[[key in candidates for key in weighed[list(NAMES)].itertuples(index=False, name=None)]]
    sure = sure_changes(weighed, base, confidence)
    rows: dict[Key, dict[str, Any]] = {key: {} for key in candidates}
    for row in weighed.assign(sure=sure).to_dict("records"):
        rows[row["scheduler"], row["predictor"], row["correction"]][row["metric"]] = row
    some = bool(weighed["p"].where(weighed["replicates"] > 1).notna().any())
    worse, better = (
        {key: tuple(name for name in WEIGHED if _changes(rows[key][name], way, only_sure)) for key in candidates}
        for way, only_sure in ((1, some), (-1, True))
    )
    raised = {key: tuple(name for name in WEIGHED if name in worse[key] or _nearly(rows[key][name], 1)) for key in candidates}
    ranked = sorted(candidates, key=lambda key: _relative(rows[key][WEIGHED[0]]))
    sound = [key for key in ranked if not raised[key] and _changes(rows[key][WEIGHED[0]], -1, some)]
    if not some:
        return Verdict(base, None, worse, better, False, tuple(_unsure(rows, ranked, sound, names, base)))
    best = sound[0] if sound else None
    family = f" for all {len(candidates)} together" if len(candidates) > 1 else ""
    over = "traces" if "traces" in weighed else "replays"
    # without windows enough for an interval only the replays vary
    alone = ", so about these jobs alone" if "windows" in weighed and weighed["windows"].max() < FEWEST_BLOCKS else ""
    sure_means = f"sure means at {100 * confidence:g} %{family}, over {int(weighed['replicates'].min())} {over}{alone}"
    how = f"Changes are against {names[base]}; {sure_means}."
    sentences = _sure(rows, raised, better, ranked, best, names, base)
    return Verdict(base, best, worse, better, True, tuple(sentences), how)


def sure_changes(comparison: pd.DataFrame, baseline: Key, confidence: float = CONFIDENCE, apart: Sequence[str] = ()) -> pd.Series:
    """Return which changes are sure, bool [rows of ``comparison``].

    :func:`features.statistics.surely` corrects for the combinations that may be chosen, for each metric and each value of the
    columns ``apart``; bounds and records are a family of their own. The ``baseline`` and single replays are in none.
    """
    keys = list(comparison[list(NAMES)].itertuples(index=False, name=None))
    measured = comparison["p"].where((comparison["replicates"] > 1) & np.array([key != baseline for key in keys], bool))
    families = [
        *(comparison[name] for name in ("metric", *apart)),
        np.array([not key[1] or is_bound(key[1]) for key in keys], bool),
    ]
    return measured.groupby(families, dropna=False).transform(surely, confidence).astype(bool)


def of_single_replays(rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """Weigh one replay of each combination; the first is the baseline.

    ``rows`` hold names and metrics by name.
    """
    if len(rows) == 1:
        [(key, name)] = combinations([tuple(rows[0][name] for name in NAMES)], short=True).items()  # type: ignore[list-item]
        return _alone(key, name)
    changes = [
        {**{name: row[name] for name in NAMES}, "metric": metric, "relative": row[metric] / base - 1.0 if base else float("nan")}
        for row in rows
        for metric, base in ((name, rows[0][name]) for name in WEIGHED)
    ]
    nothing = dict.fromkeys(("low", "high", "p"), float("nan"))
    return verdict(pd.DataFrame(changes).assign(**nothing, replicates=1, note=""))


def _alone(base: Key, name: str) -> Verdict:
    return Verdict(base, None, {}, {}, False, (f"There is nothing to choose from beside {name}.",))


def is_bound(predictor: str) -> bool:
    """Tell whether ``predictor`` knows the runtimes: a bound that no site can reach."""
    return predictor.partition("*")[0] == "clairvoyant"


def policy_labels(table: pd.DataFrame) -> dict[Key, str]:
    """Return a table's :func:`sim.metrics.verdict.combinations`, in order of appearance."""
    return combinations(_keys(table), short=True)


def _short(labels: Mapping[Key, str]) -> Mapping[Key, str]:
    """Return labels without formulas, unless two would then be the same."""
    short = {key: re.sub(r"^SCORE\(.*?\)-(?=[A-Z])", "SCORE(…)-", label) for key, label in labels.items()}
    return short if len(set(short.values())) == len(labels) else labels


def _keys(table: pd.DataFrame) -> list[Key]:
    return list(dict.fromkeys(table[list(NAMES)].itertuples(index=False, name=None)))


def _changes(row: Mapping[str, Any], direction: int, only_sure: bool) -> bool:
    return (row["sure"] or not only_sure) and not pd.isna(row["relative"]) and row["relative"] * direction > 0


def _relative(row: Mapping[str, Any]) -> float:
    return float("inf") if pd.isna(row["relative"]) else float(row["relative"])


def _sizes(rows: Mapping[str, Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """Return metrics with their changes; with intervals the slowdown, and what is not sure though its interval excludes
    0."""
    return ", ".join(f"{_title(name)} ({_size(rows[name], name == WEIGHED[0] or _nearly(rows[name]))})" for name in metrics)


def _title(metric: str) -> str:
    return METRICS[metric].title.removeprefix("mean bounded ")


def _nearly(row: Mapping[str, Any], direction: int = 0) -> bool:
    """Tell whether a change is not sure though its own interval excludes 0, in a ``direction`` if that is 1 or -1."""
    return not row["sure"] and row["replicates"] > 1 and row["low"] * row["high"] > 0 and row["relative"] * direction >= 0


def _size(row: Mapping[str, Any], whole: bool = True) -> str:
    return f"{change(row['relative'])} {interval(row['low'], row['high'], row.get('coverage')) if whole else ''}".rstrip()


def _sure(
    rows: Mapping[Key, Mapping[str, Mapping[str, Any]]],
    raised: Mapping[Key, Sequence[str]],
    better: Mapping[Key, Sequence[str]],
    ranked: Sequence[Key],
    best: Key | None,
    names: Mapping[Key, str],
    base: Key,
) -> Iterator[str]:
    """Yield the sentences on the ``best``, and on why the lowest slowdown is another's."""
    among = f" of {len(ranked)} combinations" if len(ranked) > 1 else ""
    if best is None:
        if among:
            yield f"Against {names[base]}, none{among} surely lowers slowdown without raising another metric."
        else:
            yield f"{names[ranked[0]]} is not better than {names[base]} in all that is weighed."
    else:
        lowest = _relative(rows[best][WEIGHED[0]])
        alike = [names[key] for key in ranked if key != best and _relative(rows[key][WEIGHED[0]]) == lowest]
        tie = f" (a tie with {', '.join(alike)})" if alike else ""
        yield f"{names[best]}{tie} is the best{among}; it surely lowers {_sizes(rows[best], better[best])}."
        if rest := [name for name in WEIGHED if name not in better[best]]:
            sizes = ", ".join(f"{_title(name)} ({_size(rows[best][name], _relative(rows[best][name]) > 0)})" for name in rest)
            yield f"Not sure: {sizes}."
    if ranked[0] != best:
        costs = raised[ranked[0]]
        why = f"but it raises {_sizes(rows[ranked[0]], costs)}" if costs else "which is not sure"
        which = "lowest" if _relative(rows[ranked[0]][WEIGHED[0]]) < 0 else "next lowest"
        yield f"{names[ranked[0]]} has the {which} slowdown ({_size(rows[ranked[0]][WEIGHED[0]], not costs)}), {why}."


def _unsure(
    rows: Mapping[Key, Mapping[str, Mapping[str, Any]]],
    ranked: Sequence[Key],
    sound: Sequence[Key],
    names: Mapping[Key, str],
    base: Key,
) -> Iterator[str]:
    """Yield the sentences if nothing can be sure: one replay, or too few weeks."""
    lowest = rows[ranked[0]]
    first = lowest[WEIGHED[0]]
    why = "one replay of each is one draw" if first["replicates"] == 1 else first["note"] or "nothing varies"
    yield sentence(f"{why}: no combination is surely better than {names[base]}")
    if _relative(first) >= 0:
        yield "None has a lower slowdown."
        return
    yield f"{names[ranked[0]]} has the lowest slowdown ({_size(first)}), with {_sizes(lowest, _COSTS)}."
    costs = f"{', '.join(METRICS[name].title for name in _COSTS[:-1])} or {METRICS[_COSTS[-1]].title}"
    if sound and sound[0] != ranked[0]:
        yield f"Of those with no higher {costs} it is {names[sound[0]]} ({_size(rows[sound[0]][WEIGHED[0]])})."
    elif not sound:
        yield f"Each with a lower slowdown has a higher {costs}."


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

    A correction is named only if two differ in it alone; where two would have the same words, they keep the predictors'
    names. If ``short`` and all are by requests, that is left out.
    """
    pairs, words = Counter(key[:2] for key in keys), sources(keys)
    one = short and {key[1] for key in keys if key[1]} == {"requested"}
    return {
        key: " / ".join(filter(None, (key[0], "" if one else words[key], key[2] if pairs[key[:2]] > 1 else ""))) for key in keys
    }


def sentence(text: str) -> str:
    """Return ``text`` with a capital and a full stop; "" for ""."""
    return f"{text[0].upper()}{text[1:].removesuffix('.')}." if text else ""
