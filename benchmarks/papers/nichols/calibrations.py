"""Compare the simulated clusters with what they were calibrated against.

``quiet`` stands beside real runs (``clusters/volta-proxy-runs.csv`` under ``--shared``: Ates et al. 2018,
Taxonomist data set), ``congested`` and ``stormy`` beside figure 1 of Nichols et al., known by what its text
says. Both were calibrated with first fit. ``python -m benchmarks.papers.nichols.calibrations`` prints the tables;
``--write`` puts them into docs/studies/data/rush.csv.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES
from benchmarks.common.tables import markdown, write_data
from benchmarks.papers.nichols.experiments import QUIET, machine
from sim.cluster.experiments import control_runs

VOLTA = "clusters/volta-proxy-runs.csv"
DAYS, A_DAY = 50, 2.5
"""Of figure 1: 12 November to 31 December, two to three runs a day and application."""
QUIET_RUNS = 30
"""Runs of a group, as most groups of the real runs have."""
BUSY = ("congested", "stormy")


def volta(shared: Path) -> pd.DataFrame:
    """The real runs: ``group`` (application, input, nodes) and ``runtime_s``."""
    table = pd.read_csv(shared / VOLTA)
    group = table["application"] + " " + table["input"] + " " + table["nodes"].astype(str)
    return pd.DataFrame({"group": group, "runtime_s": table["duration_s"].astype(np.float64)})


def quiet(seed: int, days: float = 2.0) -> pd.DataFrame:
    """Return as many groups' runs on ``quiet``, in the form of :func:`volta`.

    Seven applications on 8, 16 and 32 nodes.
    """
    tables = []
    for nodes in (8, 16, 32):
        runs = control_runs(QUIET, days=days, seed=seed, per_application=QUIET_RUNS, nodes=nodes, features=False).runs
        group = runs["application"] + f" {nodes}"
        tables.append(pd.DataFrame({"group": group, "runtime_s": runs["runtime_s"]}))
    return pd.concat(tables, ignore_index=True)


def variation(runs: pd.DataFrame) -> pd.Series:
    """Coefficients of variation by group, ascending."""
    groups = runs.groupby("group")["runtime_s"]
    return (groups.std(ddof=0) / groups.mean()).sort_values()


def relative(runs: pd.DataFrame) -> np.ndarray:
    """Runtimes over the median of their group, ascending."""
    return np.sort((runs["runtime_s"] / runs.groupby("group")["runtime_s"].transform("median")).to_numpy())


def busy(name: str, seed: int, days: float = DAYS) -> pd.DataFrame:
    """Return control runs as figure 1 shows them.

    ``application start_s runtime_s ratio``, the last to the application's shortest runtime.
    """
    runs = control_runs(machine(name), days=days, seed=seed, per_application=round(A_DAY * days), features=False).runs
    least = runs.groupby("application")["runtime_s"].transform("min")
    return runs.assign(ratio=runs["runtime_s"] / least)[["application", "start_s", "runtime_s", "ratio"]]


def quiet_table(real: pd.DataFrame, simulated: pd.DataFrame) -> str:
    """Spreads of both, side by side."""
    both = (variation(real), variation(simulated))
    rows = [["groups, runs", f"{len(both[0])}, {len(real)}", f"{len(both[1])}, {len(simulated)}"]]
    for name, share in (("least", 0.0), ("lower quartile", 0.25), ("median", 0.5), ("upper quartile", 0.75), ("largest", 1.0)):
        rows.append([f"coefficient of variation of a group, {name}", *(f"{100 * each.quantile(share):.2f} %" for each in both)])
    beyond = (np.mean(np.abs(relative(each) - 1) > 0.05) for each in (real, simulated))
    rows.append(["runs more than 5 % from their group's median", *(f"{100 * each:.1f} %" for each in beyond)])
    return markdown(["", "real runs on Volta", "`quiet`, simulated"], rows)


def busy_table(by_cluster: dict[str, list[pd.DataFrame]]) -> str:
    """Largest ratio and share over twice the least, by application.

    Medians over seeds, and the range of the largest.
    """
    rows = []
    applications = sorted(next(iter(by_cluster.values()))[0]["application"].unique())
    for application in applications:
        cells = []
        for tables in by_cluster.values():
            ratios = [table.loc[table["application"] == application, "ratio"].to_numpy() for table in tables]
            largest = np.array([each.max() for each in ratios])
            cells.append(f"{np.median(largest):.1f} ({largest.min():.1f} to {largest.max():.1f})")
            cells.append(f"{100 * np.mean([np.mean(each > 2) for each in ratios]):.1f} %")
        rows.append([application, *cells])
    cells = []
    for tables in by_cluster.values():
        tops = [table.groupby("application")["ratio"].max() for table in tables]
        counts = [int((each > 2).sum()) for each in tops]
        cells += [f"{np.median([each.max() for each in tops]):.1f}", f"{np.median(counts):g} of {len(applications)} applications"]
    headings = [heading for name in by_cluster for heading in (f"`{name}`: largest / least", "over 2x")]
    return markdown(["application", *headings], [*rows, ["all", *cells]])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where clusters/ is")
    parser.add_argument("--seeds", type=int, default=5, help="how often the busy clusters are simulated")
    parser.add_argument("--days", type=float, default=DAYS, help="of each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/studies/data/rush.csv")
    options = parser.parse_args(argv)
    real, simulated = volta(options.shared), quiet(0)
    asked = [(name, seed) for name in BUSY for seed in range(options.seeds)]
    runs: dict[str, list[pd.DataFrame]] = {name: [] for name in BUSY}
    with ThreadPoolExecutor(options.threads) as pool:
        tables = pool.map(lambda each: busy(*each, options.days), asked)
        for count, ((name, _), table) in enumerate(zip(asked, tables, strict=True), 1):
            runs[name].append(table)
            print(f"\r{count} of {len(asked)}", end="\n" if count == len(asked) else "", file=sys.stderr, flush=True)
    parts = {"quiet": quiet_table(real, simulated), "congested": busy_table(runs)}
    if not options.write:
        print("\n\n".join(parts.values()))
        return
    write_data(STUDIES / "rush.md", parts)


if __name__ == "__main__":
    main()
