"""The page of a study of mixed policies: claims, transfer, thresholds, waits and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipelines.report import campaign_plots, policies_plots
from pipelines.report.page import data_uri, stated, template
from pipelines.report.style import MUTED
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import change, interval, kind_of_jobs, not_modelled, number, sentence, tone
from pipelines.workflows.policy_study import Study
from sim.search.claims import BARELY, FAILS, HOLDS, Claim, changed, claims, percent, probability, pure_sums, recorded
from sim.search.pure import BASELINE, PURE
from sim.search.study import GREEDY, HINDSIGHT, ORACLE, TRAINED, XNES, Settings
from sim.search.transfer import TESTING, TRAINING, by_policy, sums

MEANINGS = {
    ORACLE: "the direction that is best in the window itself: a bound, as it knows the window beforehand",
    TRAINED: "the direction with the lowest sum over the training windows",
    GREEDY: "the direction that was best in the window before",
    HINDSIGHT: "the direction with the lowest sum over the testing windows, in hindsight: a bound for any single direction",
    "xnes3, xnes6": "what the optimiser xNES finds for the window itself, with three weights, and with six: of (n, r, wait, r/n, expansion, n r)",
}
_KNOWS = dict.fromkeys((ORACLE, *XNES), "knows the window") | {HINDSIGHT: "in hindsight"}
"""What no site could run: these are bounds."""
_VERDICTS = {HOLDS: "#009e73", BARELY: "#009e73", FAILS: "#d55e00"}


def render_policies(study: Study, provenance: Mapping[str, object], notes: Sequence[str] = ()) -> str:
    """Return the page of a study, from values alone.

    ``provenance`` and ``notes`` are printed in their order.
    """
    facts, settings, tables = study.facts, study.settings, study.tables
    generated = bool(facts["generated"])
    transfer = sums(tables.replays, settings.split, seed=settings.seed)
    dropped = ", ".join(f"{count:,} ({rule})" for rule, count in facts["dropped"].items()) or "none"
    return template("policies.html.j2").render(
        trace=facts["trace"],
        generated=generated,
        unit=settings.unit.removesuffix("s"),
        facts=[
            (f"{len(facts['windows']):,}", settings.unit),
            (f"{facts['simulated_jobs']:,}", f"jobs in them{kind_of_jobs(generated)}"),
            (f"{facts['procs']:,}", "processors"),
            (f"{facts['directions']:,}", "directions of three weights"),
            (f"{settings.replicates}", "shaken replays"),
        ],
        windows=spans(facts["windows"]),
        training=spans(settings.split.training),
        testing=spans(settings.split.testing),
        dropped=dropped,
        basis=facts["drop_basis"],
        threshold=_threshold(settings.starvation_s),
        shake=settings.shake_s,
        summary=_summary(by_policy(transfer, settings.taus_s[0], TESTING), settings),
        claims=claims_table(claims(tables, settings)),
        transfer=[(f"{tau_s:g}", transfer_table(transfer, tau_s, settings.unit)) for tau_s in settings.taus_s],
        meanings=MEANINGS.items(),
        thresholds=[(f"{tau_s:g}", thresholds_table(study, tau_s)) for tau_s in settings.taus_s],
        starved=starved_table(tables.waits, settings),
        longest=longest_table(tables.longest),
        figures=[
            {"title": title, "caption": caption, "image": data_uri(image, kind)}
            for title, caption, image, kind in figures(study, transfer)
        ],
        notes=[*map(sentence, notes), not_modelled()],
        provenance=stated(provenance),
    )


def _summary(found: Mapping[str, Mapping[str, Any]], settings: Settings) -> list[str]:
    """Say what learning is worth on the testing windows, with the first tau."""
    unit, trained, oracle = settings.unit.removesuffix("s"), found[TRAINED], found[ORACLE]
    sure = (
        "It beats SAF."
        if trained["high"] < 0
        else "It is worse than SAF."
        if trained["low"] > 0
        else "Its interval holds no change: it may be better or worse than SAF."
    )
    as_recorded = percent(oracle["sum"] / found[BASELINE]["sum"] - 1.0)
    return [
        f"The direction learned on the training {unit}s changes the sum of the testing {unit}s' mean bounded slowdowns by {changed(trained)} against "
        f"SAF, over replays with shaken submissions. {sure}",
        f"Each {unit}'s own best direction, known beforehand, would change it by {as_recorded} % as recorded, but by {changed(oracle)} over shaken replays: "
        f"what lies between is an accident of one replay.",
    ]


def claims_table(found: Sequence[Claim]) -> Table:
    """Return the claims of the paper with what was found, a row a claim and tau."""
    rows: list[Row] = []
    for place, each in enumerate(found):
        repeated = place > 0 and found[place - 1].claim == each.claim
        verdict = Cell(each.verdict, colour=_VERDICTS.get(each.verdict, MUTED))
        rows.append(["" if repeated else each.claim, f"{each.tau_s:g}", each.found, verdict])
    return Table("Claims", ["claim", "τ, s", "found here", "verdict"], rows, left=["found here", "verdict"])


def transfer_table(transfer: pd.DataFrame, tau_s: float, unit: str) -> Table:
    """Return sums over training and testing windows, as table 2 of the paper.

    The lowest on testing windows comes first.
    """
    parts = {part: by_policy(transfer, tau_s, part) for part in (TRAINING, TESTING)}
    order = sorted(parts[TESTING], key=lambda name: parts[TESTING][name]["sum"])
    made: list[Row] = []
    for name in order:
        row: Row = [Cell(name, ((_KNOWS[name], ""),)) if name in _KNOWS else name]
        for each in (parts[part][name] for part in parts):
            text = f"{change(each['relative'])} {interval(each['low'], each['high'])}"
            below = () if name == BASELINE else ((text, tone(each["low"], each["high"])),)
            row.append(Cell(number(each["sum"], "ratio"), below))
        row.append("–" if name == BASELINE else probability(parts[TESTING][name]["better"]))
        row.append(f"{parts[TESTING][name]['max_wait_s'] / 3600:,.1f}")
        made.append(row)
    classes = ["baseline" if name == BASELINE else "" for name in order]
    counts = {part: rows[BASELINE]["windows"] for part, rows in parts.items()}
    counted = [f"{part}, {count} {unit if count > 1 else unit.removesuffix('s')}" for part, count in counts.items()]
    headings = ["policy", *counted, f"probability of beating {BASELINE}", "longest wait, testing, h"]
    return Table("Transfer", headings, made, classes=classes)


def thresholds_table(study: Study, tau_s: float) -> Table:
    """Return sums over all windows by starvation threshold, as tables 3 to 6 of the paper."""
    settings = study.settings
    columns = [pure_sums(study.tables.pure, threshold, tau_s) for threshold in settings.thresholds]
    rows: list[Row] = [
        [name, *(Cell(number(values[name], "ratio"), best=values[name] == values.min()) for values in columns)]
        for name in columns[0].index
    ]
    return Table("Thresholds", ["policy", *map(_threshold, settings.thresholds)], rows)


def starved_table(waits: pd.DataFrame, settings: Settings) -> Table:
    """Return the longest wait of any job, hours, and the 99th percentile, by threshold."""
    rows: list[Row] = []
    for name in waits[waits["starvation_s"].isna()].sort_values("max_wait_s", kind="stable")["policy"]:
        cells: Row = [str(name)]
        for threshold in settings.thresholds:
            same = waits["starvation_s"].isna() if threshold is None else (waits["starvation_s"] == threshold).fillna(False)
            row = waits[(waits["policy"] == name) & same.astype(bool)].iloc[0]
            cells.append(Cell(f"{row['max_wait_s'] / 3600:,.1f}", ((f"99 %: {row['p99_wait_s'] / 3600:,.1f}", ""),)))
        rows.append(cells)
    return Table("Longest waits, h", ["policy", *map(_threshold, settings.thresholds)], rows)


def longest_table(longest: pd.DataFrame) -> Table:
    """Return the jobs with the longest runtimes (table 7 of the paper)."""
    rows = [[f"{value}" for value in row] for row in longest.itertuples(index=False)]
    return Table("Longest jobs", ["job", "submitted, s", "runtime, s", "processors"], rows)


def figures(study: Study, transfer: pd.DataFrame) -> list[tuple[str, str, bytes, str]]:
    """Return title, caption, image and kind of every figure that the tables can fill."""
    settings, tables = study.settings, study.tables
    generated, tau_s, unit = bool(study.facts["generated"]), settings.taus_s[0], settings.unit
    pure = {each: recorded(tables.replays, each)[list(PURE)] for each in settings.taus_s}
    told = f"τ = {tau_s:g} s"
    drawn = [
        (
            "What is learned, against SAF",
            "Sums over the testing windows, relative to SAF's, on a logarithmic axis. Circles: submissions as recorded. Bars and marks: mean and "
            "95 % interval over windows and shaken replays; where a circle lies far from its mark, the policy fitted an accident of one replay.",
            policies_plots.sums(transfer, generated),
            "svg+xml",
        ),
        (
            f"{unit.capitalize().removesuffix('s')} by {unit.removesuffix('s')}",
            f"{told}, as recorded; training on grey (figures 3, 13 and 15 of the paper).",
            policies_plots.by_window(tables.replays, tau_s, settings.split, unit, generated),
            "svg+xml",
        ),
        (
            "The best pure policy of each window",
            f"{told}. Names where SAF is more than a quarter above (figures 2 and 12).",
            policies_plots.best_pure(tables.replays, tau_s, unit, generated),
            "svg+xml",
        ),
        (
            "Distribution over windows",
            "Boxes are quartiles, whiskers reach 1.5 times as far, the diamond is the mean (figure 1).",
            campaign_plots.boxes(pure, BASELINE, generated),
            "svg+xml",
        ),
    ]
    if settings.budget:
        text = (
            f"{told}. What xNES finds with three and with six weights, against the optimum of the grid of three (figures 5 and 14)."
        )
        image = policies_plots.optimised(tables.replays, tau_s, unit, generated)
        drawn.append(("Black-box search", text, image, "svg+xml"))
    if len(tables.landscapes):
        text = (
            f"{told}: every cell is a mixed policy; lighter is better. Each window has two faces, by the sign of the weight of n; the weight of r "
            "grows to the upper left, that of wait to the upper right, both 0 in the middle. Dot: the best direction of the grid (figure 4)."
        )
        image = policies_plots.landscapes(tables.landscapes, tables.chosen, tau_s, unit, generated)
        drawn.append(("Landscapes", text, image, "png"))
    return drawn


def spans(numbers: Sequence[int]) -> str:
    """Return numbers in order as spans, as in 1-5, 7."""
    found: list[list[int]] = []
    for each in numbers:
        if found and each == found[-1][-1] + 1:
            found[-1].append(each)
        else:
            found.append([each])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}" for span in found)


def _threshold(seconds: int | None) -> str:
    return "no threshold" if seconds is None else f"{seconds:,} s"
