"""Measure what predictions do to the schedule, on every trace with requests and users.

``python -m benchmarks.studies.schedules`` prints the card docs/studies/schedules.md; ``--write`` makes it, its picture and
data/schedules.parquet: schedulers x predictors x corrections, by halves of the jobs, against EASY with requested times and against the same
scheduler with requested and with exact times. A trace is simulated whole, ten times, with every submission moved by up to 60 s; predictors
learn from what has ended in the simulation. Those that are retrained every night take seconds a replay: they have three, and run on ``STUDIED``
under the first two schedulers. With ``tsafrir`` a prediction is prolonged once it is outlived, with ``conditional(when=pass)`` the predictor is
asked again about every running job before every pass. Each simulation is kept under ``--keep`` when it is finished, so that an interrupted run
goes on where it was; what is kept is used only with the same code and the same jobs. Needs the traces under ``--shared``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd
from matplotlib.lines import Line2D

from benchmarks.common.card import Card, parser, study
from benchmarks.common.logs import LOGS, load
from benchmarks.common.pages import HOUSE
from benchmarks.common.policy_frontier import Sums, change
from benchmarks.common.replays import PARTS, REPLAYS, all_replayed
from features.jobs.cleaning import CleanTrace
from pipelines.report.style import INK, MUTED, encode, figure
from sim.policy import Policy

SCHEDULERS = ("EASY", "EASY-SJBF", "JustBF")
AGEING = ("EASY-WFP3",)
"""More to choose from: a backfill order in which waiting counts."""
LEARNED = ("last2", "hierarchy", "sp3", "knn", "okcm", "nag")
NIGHTLY = ("lightgbm", "quantile")
"""Predictors that are retrained every night inside the simulation: they take seconds, not milliseconds. On ``STUDIED``, with the first two schedulers."""
STUDIED = ("KTH-SP2",)
CORRECTIONS = ("tsafrir", "conditional(when=pass)")
"""The same for every predictor, or there would be no comparison."""
NEVER_OUTLIVED = ("requested", "requested*2", "clairvoyant")
"""Predictors that no job outlives: there is nothing to correct."""
DOUBLED = ("EASY", "EASY-SJBF")
"""Twice the request has been proposed for these."""
METRICS = ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s", "underprediction_rate")
BASE = Policy("EASY", "requested")


@dataclass(frozen=True)
class Results:
    """Weekly sums of every policy on one trace, by part.

    ``seconds`` of each simulation, ``jobs`` of each part.
    """

    title: str
    trace: CleanTrace
    sums: Mapping[str, Mapping[Policy, Sums]]
    seconds: Mapping[Policy, float]


def policies(schedulers: Sequence[str], learned: Sequence[str], corrections: Sequence[str]) -> list[Policy]:
    """Every combination worth simulating.

    Plain EASY and the baselines of each scheduler first; a correction is varied where there is one.
    """
    asked = [BASE, Policy("EASY", "clairvoyant"), Policy("EASY-SJBF", "clairvoyant")]
    for scheduler in schedulers:
        asked += [Policy(scheduler, "requested"), Policy(scheduler, "clairvoyant")]
        asked += [Policy(scheduler, "requested*2")] if scheduler in DOUBLED else []
        asked += [Policy(scheduler, *each) for each in product(learned, corrections) if each[0] not in NEVER_OUTLIVED]
    return list(dict.fromkeys(asked))


def nightly(title: str) -> list[Policy]:
    """The policies with predictors that are retrained every night, on the trace ``title``."""
    return [Policy(*each) for each in product(SCHEDULERS[:2], NIGHTLY, CORRECTIONS)] if title in STUDIED else []


def run(
    title: str,
    trace: CleanTrace,
    asked: Iterable[Policy],
    folder: Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
    replays: int = 1,
) -> Results:
    """Replay ``asked`` on ``trace``, up to ``replays`` times each.

    By :func:`benchmarks.common.replays.all_replayed`; one replay is of the trace as recorded.
    """
    return Results(title, trace, *all_replayed(title, trace, asked, folder, replays, workers, quiet))


def best_corrections(results: Results) -> list[Policy]:
    """Choose the correction for each scheduler and predictor on the first half.

    It has the lowest mean bounded slowdown there, and is the first of equals.
    """
    values = {policy: sums["mean_bounded_slowdown"].value() for policy, sums in results.sums["first half"].items()}
    best: dict[tuple[str, str], Policy] = {}
    for policy in values:
        held = best.get(policy[:2])
        if held is None or values[policy] < values[held]:
            best[policy[:2]] = policy
    return list(best.values())


def tidy(results: Results) -> pd.DataFrame:
    """Return every number, a row for each part, policy, metric and baseline.

    ``against`` is plain EASY with requested times, or the same scheduler's requested or exact times; ``relative low high`` are
    changes, null where the baseline is 0 (``low`` and ``high`` also below 5 weeks).
    """
    chosen = set(best_corrections(results))
    rows = []
    for name in PARTS:
        sums = results.sums[name]
        for policy, metric in product(sums, METRICS):
            references = {
                "EASY / requested": BASE,
                "same scheduler / requested": Policy(policy.scheduler, "requested"),
                "same scheduler / clairvoyant": Policy(policy.scheduler, "clairvoyant"),
            }
            for against, reference in references.items():
                row = {"trace": results.trace.name, "part": name, **policy.names(), "best_correction": policy in chosen}
                rows.append(row | {"metric": metric, "against": against} | change(sums[policy], sums[reference], metric)._asdict())
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "baseline", "relative", "low", "high"), "float64"))


NEITHER, SOME = 0.0, 0.05
"""What AWF and P2SF of a choice may be above EASY's on the first half."""
FAILS = (
    "`EASY-WFP3` (in the data) was added after seeing both halves of two traces. Jobs run on one pool: no partitions, nodes, memory; CERIT's two "
    "machines are one. CERIT's second half has four weeks, and no interval. Left out: LLNL-Atlas, where jobs hardly wait, and logs without "
    "requests."
)


def against_easy(rows: pd.DataFrame, title: str, part: str, metric: str) -> pd.DataFrame:
    """Return the changes of one metric against EASY with requested times, indexed by policy, in the order of the data."""
    chosen = (
        (rows["trace"] == title) & (rows["part"] == part) & (rows["metric"] == metric) & (rows["against"] == "EASY / requested")
    )
    return rows[chosen].set_index(["scheduler", "predictor", "correction"])


def choice(rows: pd.DataFrame, title: str, allowed: float) -> tuple[str, str, str]:
    """Return the policy of ``SCHEDULERS`` with the least slowdown on the first half.

    AWF and P2SF are at most ``allowed`` above EASY's there; exact runtimes are no choice.
    """
    changes = pd.DataFrame({metric: against_easy(rows, title, PARTS[0], metric)["relative"] for metric in METRICS[:3]})
    names = changes.index.to_frame()
    free = names["scheduler"].isin(SCHEDULERS) & (names["predictor"] != "clairvoyant")
    within = changes[free & (changes[[*METRICS[1:3]]].max(axis=1) <= allowed)]
    return within.index[within[METRICS[0]].argmin()]


def titled(name: str) -> str:
    """Return the title of a trace by the name that the data have."""
    return next(title for title, (file, _) in LOGS.items() if file.lower().startswith(name))


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a trace: exact runtimes, and the best choices of the first half, on the second."""
    table, exact, free = [], [], []
    for title in rows["trace"].unique():
        changes = [against_easy(rows, title, PARTS[1], metric) for metric in METRICS[:3]]
        cells = [titled(title)]
        for policy in (("EASY", "clairvoyant", "requested"), choice(rows, title, NEITHER), choice(rows, title, SOME)):
            slowdown, awf, p2sf = (each.loc[policy] for each in changes)
            name = "" if policy[1] == "clairvoyant" else f"{policy[0]}, {policy[1]}: " if policy != BASE[:3] else "EASY, requested"
            some = name != "EASY, requested"
            cells.append(
                f"{name}{_percent(slowdown)}; {100 * awf['relative']:+.1f}, {100 * p2sf['relative']:+.1f}" if some else name
            )
        table.append(cells)
        exact.append(changes[0].loc[("EASY", "clairvoyant", "requested")])
        free.append(changes[0].loc[choice(rows, title, NEITHER)])
    gains = [sorted(0.0 - 100 * each["relative"] for each in group) for group in (exact, free)]
    return Card(
        question="What do predictions do to the schedule?",
        answer="Under EASY, exact runtimes would lower mean bounded slowdown against requested times by "
        f"{gains[0][0]:.0f} to {gains[0][-1]:.0f} %. The best choice on a trace's first half at no price in packing (AWF) and fairness "
        f"(P2SF) lowers slowdown by {gains[1][0]:.0f} to {gains[1][-1]:.0f} % on the second half, with an interval below 0 on "
        f"{sum(each['high'] < 0 for each in free)} of {len(free)} traces.",
        picture="schedules.png",
        picture_caption="A point is a scheduler with a predictor and a correction, on the second half; rings: chosen on the first",
        table=pd.DataFrame(table, columns=["trace", "EASY, exact runtimes", "best at no price", "best at up to 5 %"]),
        table_caption="Change of slowdown in % [95 % over weeks and replays], then of AWF and of P2SF, against EASY with requested times. "
        "Choices are among EASY, EASY-SJBF and JustBF, with requested times or predictors and two corrections; the 5 % limits the "
        "first half, and may be exceeded on the second:",
        fails=FAILS,
        data=["schedules.parquet"],
        made_by=made_by,
    )


def _percent(row: pd.Series) -> str:
    bounds = "" if pd.isna(row["low"]) else f" [{100 * row['low']:+.0f}, {100 * row['high']:+.0f}]"
    return f"{100 * row['relative']:+.1f}{bounds}"


def draw(rows: pd.DataFrame) -> bytes:
    """Draw a panel a trace: change of slowdown against change of AWF on the second half."""
    colours = dict(zip(SCHEDULERS, ("#0072b2", "#d55e00", "#009e73"), strict=True))
    with figure(9.6, 5.6, generated=False) as canvas:
        panels = list(canvas.subplots(2, 3).flat)
        for axes, title in zip(panels, rows["trace"].unique(), strict=False):
            x, y = (100 * against_easy(rows, title, PARTS[1], metric)["relative"] for metric in METRICS[:2])
            chosen = [choice(rows, title, allowed) for allowed in (NEITHER, SOME)]
            for policy in (each for each in x.index if each[0] in SCHEDULERS):
                exact, asked = policy[1] == "clairvoyant", policy[1].startswith("requested")
                mark, size = ("*", 11) if exact else ("s", 5) if asked else ("o", 4)
                right = x[policy] > RIGHT
                place = min(x[policy], RIGHT), y[policy]
                axes.plot(*place, ">" if right else mark, markersize=size, color=colours[policy[0]], alpha=0.85, clip_on=False)
                if policy in chosen:
                    axes.plot(*place, "o", markerfacecolor="none", markeredgecolor=INK, markersize=10)
            axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
            axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
            if y.abs().max() > LINEAR:
                axes.set_yscale("symlog", linthresh=LINEAR, linscale=1.5)
                axes.yaxis.set_major_formatter("{x:g}")
            axes.set(title=titled(title), xlim=(-80, RIGHT), xlabel="change of slowdown, %", ylabel="change of AWF, %")
        marks = {"exact runtimes": ("*", 11), "requested times": ("s", 5), "predicted": ("o", 4)}
        handles = [Line2D([], [], marker="o", color=colour, linestyle="", label=name) for name, colour in colours.items()]
        handles += [
            Line2D([], [], marker=mark, color=MUTED, linestyle="", markersize=size, label=name)
            for name, (mark, size) in marks.items()
        ]
        handles.append(Line2D([], [], marker="o", markerfacecolor="none", color=INK, linestyle="", markersize=10, label="chosen"))
        panels[-1].set_axis_off()
        panels[-1].legend(handles=handles, loc="center")
        return encode(canvas, "png")


RIGHT, LINEAR = 60.0, 5.0
"""Slowdowns worse by more are drawn at the edge; vertical axes are logarithmic beyond the second, in %."""


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--trace", action="append", choices=LOGS, help="only this one; may be given again")
    arguments.add_argument("--replays", type=int, default=REPLAYS, help="of each policy; fewer of predictors retrained every night")
    arguments.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "replays", help="where finished replays are kept")
    arguments.add_argument("--workers", type=int, help="threads, by default one a core")
    options = arguments.parse_args(argv)

    def measured() -> pd.DataFrame:
        asked, tables = policies(SCHEDULERS + AGEING, LEARNED, CORRECTIONS), []
        for title in options.trace or LOGS:
            trace = load(title, options.shared)
            tables.append(
                tidy(run(title, trace, [*asked, *nightly(title)], options.keep, options.workers, replays=options.replays))
            )
        return pd.concat(tables, ignore_index=True)

    study(options, "studies.schedules", "schedules.parquet", measured, card, draw)


if __name__ == "__main__":
    main()
