"""Compare the twelve pure policies of Legrand, Trystram & Zrigui (2018), week by week.

``python -m benchmarks.papers.legrand2018`` prints the tables beside what they published; ``--write`` makes
docs/studies/legrand-2018.md and its picture; ``--speed`` measures the policies of all weeks and 20,000 mixed policies
of one busy week. Needs the traces and the published numbers under ``--shared``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import spearmanr

from benchmarks.common.pages import SHARED, STUDIES, made_by
from benchmarks.common.tables import markdown, write_page
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, encode, figure
from sim import Campaign, run_campaign, split_windows
from sim.campaigns.sweep import random_weights, sweep

PURE = ("FCFS", "LCFS", "SPF", "LPF", "SQF", "LQF", "SAF", "LAF", "SRF", "LRF", "SEXP", "LEXP")
TRACES = {
    "kth-sp2": ("KTH-SP2", "KTH-SP2-1996-2.swf.gz", None, 5, 45),
    "sdsc-sp2": ("SDSC-SP2", "SDSC-SP2-filtered.swf.gz", 128, 3, 100),
}
"""Name, file, processors, the paper's table and how many weeks it takes."""
THRESHOLDS: dict[str, int | None] = {"no threshold": None, "200000 s": 200_000, "72000 s": 72_000}
TAUS_S = (10.0, 60.0)


def ours(trace: CleanTrace, weeks: int) -> tuple[pd.DataFrame, str]:
    """Return sums over the weeks of mean bounded slowdown.

    ``policy threshold tau_s ours``, and what was simulated, in a sentence.
    """
    windows = split_windows(trace.jobs, "weeks")
    asked = Campaign(tuple(f"{order}-EASY-SPF" for order in PURE), starvation_s=tuple(THRESHOLDS.values()), taus_s=TAUS_S)
    results = run_campaign(trace.jobs, asked, procs=trace.procs, windows=windows, trace=trace.name)
    results = results[results["window"] <= weeks]
    names = {seconds: name for name, seconds in THRESHOLDS.items()}
    results["policy"] = results["scheduler"].str.split("-").str[0]
    results["threshold"] = [names[None if pd.isna(each) else int(each)] for each in results["starvation_s"]]
    sums = results.groupby(["policy", "threshold", "tau_s"], as_index=False)["mean_bounded_slowdown"].sum()
    taken = results.drop_duplicates("window")
    dropped = " and ".join(f"{count:,} ({rule})" for rule, count in windows.counts().items())
    said = f"{len(taken)} weeks, {int(taken['jobs'].sum()):,} jobs. Of the whole trace {dropped} were left out, by {windows.basis}"
    return sums.rename(columns={"mean_bounded_slowdown": "ours"}), said


def published(shared: Path, name: str, table: int) -> pd.DataFrame:
    """The paper's numbers: ``policy threshold published``."""
    rows = pd.read_csv(shared / "reference" / "mixed_policies_published.csv")
    rows = rows[(rows["table"] == table) & (rows["trace"] == name)]
    return rows.rename(columns={"column": "threshold", "sum_of_weekly_mean_bounded_slowdown": "published"})[
        ["policy", "threshold", "published"]
    ]


def ratios(sums: pd.DataFrame, numbers: pd.DataFrame, threshold: str) -> pd.DataFrame:
    """Ratios to FCFS by policy: published, and ours for each tau; in the published order."""
    told = numbers[numbers["threshold"] == threshold].set_index("policy")["published"]
    table = pd.DataFrame({"published": told / told["FCFS"]})
    for tau_s in TAUS_S:
        mine = sums[(sums["threshold"] == threshold) & (sums["tau_s"] == tau_s)].set_index("policy")["ours"]
        table[f"tau {tau_s:g} s"] = mine / mine["FCFS"]
    return table.sort_values("published")


def swapped(table: pd.DataFrame, column: str) -> list[str]:
    """Neighbours in the published order that stand the other way round in ``column``."""
    pairs = zip(table.index[:-1], table.index[1:], strict=True)
    return [f"{first} and {second}" for first, second in pairs if table.loc[first, column] > table.loc[second, column]]


def page(shared: Path) -> tuple[str, dict[str, pd.DataFrame]]:
    """The whole comparison as Markdown, and the tables without a threshold for the picture."""
    lines, drawn = [], {}
    for name, (title, file, procs, table, weeks) in TRACES.items():
        trace = clean(read_swf(shared / "traces" / file), procs)
        sums, said = ours(trace, weeks)
        numbers = published(shared, name, table)
        lines += [f"## {title}, weeks 1 to {weeks} (the paper's table {table})", "", f"{said}.", ""]
        for threshold in THRESHOLDS:
            compared = ratios(sums, numbers, threshold)
            if threshold == "no threshold":
                drawn[title] = compared
            fcfs = [float(numbers[(numbers.threshold == threshold) & (numbers.policy == "FCFS")]["published"].iloc[0])]
            fcfs += [
                float(sums[(sums.threshold == threshold) & (sums.tau_s == tau) & (sums.policy == "FCFS")]["ours"].iloc[0])
                for tau in TAUS_S
            ]
            heading = "No threshold" if THRESHOLDS[threshold] is None else f"Threshold {THRESHOLDS[threshold]:,} s"
            lines += [f"**{heading}.** " + " ".join(verdicts(compared)), ""]
            rows = [[str(policy), *(f"{value:.3f}" for value in row)] for policy, row in compared.iterrows()]
            rows.append(["sum of FCFS", *(f"{value:,.0f}" for value in fcfs)])
            lines += [markdown(["ratio to FCFS", *compared.columns], rows), ""]
    return "\n".join(lines), drawn


def verdicts(compared: pd.DataFrame) -> list[str]:
    """For each tau, what matches and what does not, in a sentence."""
    said = []
    for column in compared.columns[1:]:
        apart = (compared[column] - compared["published"]).abs()
        exchanged = swapped(compared, column)
        order = "the published order" if not exchanged else f"neighbours exchanged: {', '.join(exchanged)}"
        rho = float(spearmanr(compared["published"], compared[column])[0])
        said.append(
            f"With {column} {order} (rank correlation {rho:.3f}); ratios differ by {apart.median():.3f} in the median and "
            f"{apart.max():.3f} at most ({apart.idxmax()})."
        )
    return said


def draw(drawn: dict[str, pd.DataFrame], path: Path) -> None:
    """Published and simulated ratios to FCFS side by side, a panel a trace."""
    with figure(9.6, 4.2, generated=False) as canvas:
        panels = canvas.subplots(1, len(drawn))
        for axes, (title, table) in zip(panels, drawn.items(), strict=True):
            _panel(axes, title, table)
        panels[0].legend(loc="upper left")
        path.write_bytes(encode(canvas, "png"))


def _panel(axes: Axes, title: str, table: pd.DataFrame) -> None:
    places = np.arange(len(table))
    looks = {"published": ("D", INK), "tau 10 s": ("o", "#d55e00"), "tau 60 s": ("s", "#0072b2")}
    for column, (mark, colour) in looks.items():
        axes.plot(places, table[column], mark, color=colour, label=column, markersize=5.5, alpha=0.85)
    axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xticks(places, list(table.index), rotation=60)
    axes.set_title(title)
    axes.set_ylabel("weekly mean bounded slowdown, relative to FCFS")


HEAD = """# Do the weekly results of Legrand et al. (2018) come out?

Legrand, Trystram & Zrigui, "Adapting batch scheduling to workload characteristics: what can we expect from online learning?" (Inria report 9212,
2018), order EASY's primary queue by one of twelve policies, backfill shortest first, and simulate every week by itself. Here are the sums over weeks of
each week's mean bounded slowdown relative to FCFS, theirs and ours, over as many weeks from the second on as they take. Means over all
weeks of a trace come from
`queuecast campaign TRACE --scheduler FCFS-EASY-SPF --scheduler SAF-EASY-SPF --windows weeks --tau 10 --tau 60 --out weeks.parquet`.

* Weeks count from the first submission, the first is left out, and a job whose start and end lie in different weeks is dropped. No reading
  of that rule gives the paper's numbers of jobs (27,670 on KTH-SP2, 49,809 on SDSC-SP2), so ratios and ranks are compared, not sums.
* The paper states tau = 10 s. Its sums fit tau = 60 s: on KTH-SP2 FCFS is {ours:,.0f} here with tau 60, published as 850, and {other:,.0f} with tau 10.
* A job that has waited longer than the threshold goes to the head of the queue.

![Published and simulated ratios to FCFS](legrand-2018.png)

{made} Traces: KTH-SP2 by Lars Malinowsky, SDSC-SP2 by the San Diego Supercomputer Center (the 54,006 jobs
of Gaussier et al. 2015), both by way of the Parallel Workloads Archive (D. Feitelson).

The tables are of no threshold; those of both thresholds are in [data/legrand-2018.csv](data/legrand-2018.csv).

"""


def median_s(work: Callable[[], object], repeat: int = 5) -> float:
    """Median wall time of ``work``, seconds, after one run that does not count."""
    work()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def speed(shared: Path) -> None:
    """Measure a sweep over mixed policies, whose vertices the paper's policies are.

    It simulates and measures them all in one call a week.
    """
    trace = clean(read_swf(shared / "traces" / TRACES["kth-sp2"][1]))
    vertices = np.vstack([sign * np.eye(6) for sign in (1.0, -1.0)])
    weeks = split_windows(trace.jobs, "weeks", skip_first=False, drop="none").windows

    def all_weeks() -> float:
        seconds = 0.0
        for week in weeks:
            seconds += sweep(week.jobs, vertices, procs=trace.procs, workers=1).attrs["simulate_s"]
        return seconds

    whole = median_s(all_weeks)
    alone = statistics.median(all_weeks() for _ in range(5))
    jobs = 12 * sum(len(week.jobs) for week in weeks)
    print(
        f"twelve pure policies, {len(weeks)} weeks of KTH-SP2, one core: simulation alone {alone:.4f} s, {jobs / alone / 1e6:.2f} million jobs/s "
        f"({whole:.3f} s with everything around it)"
    )
    busy = next(week for week in weeks if len(week.jobs) == 743)
    weights = random_weights(20_000)
    for workers in (1, 2):
        seconds = median_s(lambda: sweep(busy.jobs, weights, procs=trace.procs, workers=workers))  # noqa: B023
        rate = len(weights) * len(busy.jobs) / seconds / 1e6
        print(
            f"20,000 mixed policies, week {busy.number} (743 jobs), {workers} threads: {seconds:.2f} s, {rate:.2f} million jobs/s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ and reference/ are")
    parser.add_argument("--write", action="store_true", help="write docs/studies/legrand-2018.md and .png")
    parser.add_argument("--speed", action="store_true", help="measure instead")
    options = parser.parse_args()
    if options.speed:
        speed(options.shared)
        return
    text, drawn = page(options.shared)
    if not options.write:
        print(text)
        return
    sums = next(line for line in text.splitlines() if line.startswith("| sum of FCFS")).strip("| ").split(" | ")
    head = HEAD.format(
        made=made_by("papers.legrand2018"), other=float(sums[2].replace(",", "")), ours=float(sums[3].replace(",", ""))
    )
    write_page(STUDIES / "legrand-2018.md", head + text, lambda table: table.number == 1)
    draw(drawn, STUDIES / "legrand-2018.png")


if __name__ == "__main__":
    main()
