"""Check the conclusions of Goponenko et al. (2022) on KTH-SP2 and SDSC-SP2.

``python -m benchmarks.papers.goponenko2022`` prints the tables and what becomes of each conclusion;
``--write`` makes docs/studies/goponenko-2022.md and its pictures. Needs the traces under ``--shared``. Their second
example, predictions, is :mod:`benchmarks.papers.goponenko2022_predictions`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES, made_by
from benchmarks.common.tables import Table, markdown, write_page
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, encode, figure
from sim import Campaign, campaign_schedules
from sim.metrics.comparison import compare

TRACES = {"KTH-SP2": ("KTH-SP2-1996-2.swf.gz", None), "SDSC-SP2": ("SDSC-SP2-filtered.swf.gz", 128)}
SCHEDULERS = ("JustBF", "SJF-JustBF", "SAF-JustBF", "LAF-JustBF", "EASY", "EASY-SJBF")
PREDICTORS = ("requested", "clairvoyant")
RUNTIMES = {
    "requested": "requested times",
    "clairvoyant": "exact runtimes (the slides do not say which of the two each conclusion is drawn from)",
}
METRICS = {"mean_bounded_slowdown": "bounded slowdown", "awf_s": "AWF", "p2sf_s": "P2SF"}
BSLD, AWF, P2SF = METRICS
_COLOURS = ("#0072b2", "#d55e00", "#009e73")
CLOSE = 0.03
"""What counts as close, where the paper says close."""


def traces(shared: Path, quick: bool = False) -> Iterator[tuple[str, CleanTrace, pd.DataFrame]]:
    """Title, trace and jobs to simulate; the first 3,000 jobs of the first trace if ``quick``."""
    for title, (file, procs) in list(TRACES.items())[: 1 if quick else None]:
        trace = clean(read_swf(shared / "traces" / file), procs)
        yield title, trace, trace.jobs.iloc[:3000] if quick else trace.jobs


def comparisons(shared: Path, quick: bool = False) -> dict[str, pd.DataFrame]:
    """Compare every scheduler with JustBF with the same runtimes, by trace.

    One row a scheduler, predictor and metric.
    """
    made = {}
    for title, trace, jobs in traces(shared, quick):
        tables = []
        for predictor in PREDICTORS:
            asked = Campaign(schedulers=SCHEDULERS, predictors=(predictor,))
            schedules = campaign_schedules(jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)
            tables.append(compare(schedules, ("JustBF", predictor), tuple(METRICS)))
        made[title] = pd.concat(tables, ignore_index=True)
    return made


def cell(table: pd.DataFrame, scheduler: str, metric: str, predictor: str = "requested") -> pd.Series:
    """The one row of a scheduler, predictor and metric."""
    found = table[(table["scheduler"] == scheduler) & (table["predictor"] == predictor) & (table["metric"] == metric)]
    return found.iloc[0]


def conclusions(table: pd.DataFrame, predictor: str) -> list[tuple[str, str]]:
    """Check what the paper concludes on one trace with these runtimes.

    Each claim comes with the numbers that decide it.
    """

    def told(scheduler: str, metric: str) -> str:
        row = cell(table, scheduler, metric, predictor)
        return f"{scheduler} {row['relative']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]"

    def best(metric: str) -> str:
        return min(SCHEDULERS, key=lambda scheduler: float(cell(table, scheduler, metric, predictor)["value"]))

    def beyond(scheduler: str, metric: str, sign: int) -> bool:
        row = cell(table, scheduler, metric, predictor)
        return bool((row["low"] > 0) if sign > 0 else (row["high"] < 0))

    others = [each for each in SCHEDULERS if each != "JustBF"]
    worse = [each for each in others if beyond(each, P2SF, 1)]
    said = [
        (
            "JustBF is best at P2SF",
            f"{'holds' if best(P2SF) == 'JustBF' else 'does not hold: best is ' + best(P2SF)}; worse beyond the interval are {len(worse)} of 5. "
            + ", ".join(told(each, P2SF) for each in others),
        )
    ]
    for scheduler in ("SAF-JustBF", "SJF-JustBF"):
        holds = beyond(scheduler, BSLD, -1), beyond(scheduler, AWF, 1), beyond(scheduler, P2SF, 1)
        verdict = "holds" if all(holds) else "holds in part" if holds[0] else "does not hold"
        numbers = ", ".join(f"{name} {told(scheduler, metric).removeprefix(scheduler + ' ')}" for metric, name in METRICS.items())
        said.append((f"{scheduler} is better at slowdown, at the expense of packing and fairness", f"{verdict}: {numbers}"))
    laf = [beyond("LAF-JustBF", AWF, -1), beyond("LAF-JustBF", BSLD, 1), beyond("LAF-JustBF", P2SF, 1)]
    verdict = (
        "holds" if best(AWF) == "LAF-JustBF" and all(laf) else "holds in part" if best(AWF) == "LAF-JustBF" else "does not hold"
    )
    numbers = ", ".join(f"{name} {told('LAF-JustBF', metric).removeprefix('LAF-JustBF ')}" for metric, name in METRICS.items())
    said.append(("LAF-JustBF is best in packing, at the expense of the rest", f"{verdict}; best at AWF is {best(AWF)}: {numbers}"))
    if predictor != "requested":  # the last conclusion is about time limits
        return said
    near = all(abs(float(cell(table, "EASY", metric, predictor)["relative"])) <= CLOSE for metric in (AWF, P2SF))
    said.append(
        (
            "with time limits, EASY is close to JustBF in packing and fairness",
            f"{'holds' if near else 'holds in part' if abs(float(cell(table, 'EASY', AWF, predictor)['relative'])) <= CLOSE else 'does not hold'}, if "
            f"close is within {CLOSE:.0%}: AWF {told('EASY', AWF)}, P2SF {told('EASY', P2SF)}",
        )
    )
    return said


def page(made: dict[str, pd.DataFrame]) -> str:
    """Everything as Markdown."""
    lines = []
    for title, table in made.items():
        lines += [f"## Scheduling algorithms on {title}", ""]
        for predictor in PREDICTORS:
            lines += [f"With {RUNTIMES[predictor]}:", ""]
            lines += [f"* *{claim}*: {verdict.removesuffix('.')}." for claim, verdict in conclusions(table, predictor)]
            lines.append("")
        rows = []
        for predictor in PREDICTORS:
            for scheduler in SCHEDULERS:
                cells = []
                for metric in METRICS:
                    row = cell(table, scheduler, metric, predictor)
                    value = f"{row['value']:.2f}" if metric == BSLD else f"{row['value']:,.0f} s"
                    change = "" if scheduler == "JustBF" else f"{row['relative']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]"
                    cells += [value, change]
                rows.append([predictor, scheduler, *cells])
        headings = [heading for name in METRICS.values() for heading in (name, "vs JustBF")]
        lines += [markdown(["runtimes", "scheduler", *headings], rows, keys=2), ""]
    return "\n".join(lines)


def draw(made: dict[str, pd.DataFrame], path: Path) -> None:
    """Change relative to JustBF with requested times, three metrics, a panel a trace."""
    with figure(9.6, 3.8, generated=False) as canvas:
        panels = canvas.subplots(1, len(made), sharey=True)
        compared = [each for each in SCHEDULERS if each != "JustBF"]
        places = np.arange(len(compared))[::-1]
        for axes, (title, table) in zip(panels, made.items(), strict=True):
            for shift, (metric, colour) in enumerate(zip(METRICS, _COLOURS, strict=True)):
                rows = [cell(table, each, metric) for each in compared]
                middle = np.array([row["relative"] for row in rows]) * 100
                reach = np.abs(np.array([[row["low"], row["high"]] for row in rows]).T * 100 - middle)
                at = places + 0.22 * (1 - shift)
                axes.errorbar(middle, at, xerr=reach, fmt="o", color=colour, label=METRICS[metric], markersize=5, capsize=2)
            axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
            axes.set_yticks(places, compared)
            axes.set_title(title)
            axes.set_xlabel("change relative to JustBF, % (symmetric logarithmic)")
            axes.set_xscale("symlog", linthresh=10)
            axes.xaxis.set_major_formatter("{x:g}")
        panels[1].legend(loc="lower right")
        path.write_bytes(encode(canvas, "png"))


HEAD = """# Do the conclusions of Goponenko et al. (2022) hold?

Goponenko, Lamar, Peterson, Allan, Brandt & Dechev, "Metrics for packing efficiency and fairness of HPC cluster batch job scheduling" (SBAC-PAD 2022), compare
JustBF and its sorted variants with EASY, and then predicted with requested runtimes, by mean bounded slowdown, area-weighted response time (AWF, packing) and
P2SF (packing and fairness). Their conclusions are checked here on two of their traces. First the algorithms, by relative changes against JustBF with
95 % intervals over weeks; "beyond the interval" means that it excludes no change, one comparison at a time. Per-second semantics; lower is better everywhere.

![Change relative to JustBF](goponenko-2022.png)

{made} Traces: KTH-SP2 by Lars Malinowsky, SDSC-SP2 by the San Diego Supercomputer Center (the 54,006 jobs
of Gaussier et al. 2015), both by way of the Parallel Workloads Archive (D. Feitelson). The tables show requested times,
and predictions corrected to the request; those with exact runtimes and with Tsafrir's correction are in [data/goponenko-2022.csv](data/goponenko-2022.csv).

"""


def matters(table: Table, cells: Sequence[str]) -> bool:
    """Keep requested times among algorithms, and one correction of each prediction."""
    if table.section.startswith("Predictions"):
        return cells[1] != "tsafrir"
    return cells[0] == "requested"


def main(argv: Sequence[str] | None = None) -> None:
    from benchmarks.papers import goponenko2022_predictions as second

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--write", action="store_true", help="write docs/studies/goponenko-2022.md and its pictures")
    parser.add_argument("--quick", action="store_true", help="3,000 jobs of KTH-SP2: does it run?")
    options = parser.parse_args(argv)
    made = comparisons(options.shared, options.quick)
    predicted = second.comparisons(options.shared, options.quick)
    text = page(made) + "\n" + second.page(predicted)
    if not options.write:
        print(text)
        return
    write_page(STUDIES / "goponenko-2022.md", HEAD.format(made=made_by("papers.goponenko2022", argv)) + text, rows=matters)
    draw(made, STUDIES / "goponenko-2022.png")
    second.draw(predicted, STUDIES / "goponenko-2022-predictions.png")


if __name__ == "__main__":
    main()
