"""Tables of simulated RUSH as they lie in docs/studies/data: Markdown by the name of its part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common.tables import markdown
from benchmarks.papers.nichols.comparison import compared
from benchmarks.papers.nichols.experiments import ALL, EASY, METRICS, STRATA, Conducted, asking_rate
from sim.metrics.verdict import signed

_COLUMNS = (
    ("runs with variation", "varied", STRATA[0]),
    ("without storm", "varied", STRATA[1]),
    ("with storm", "varied", STRATA[2]),
    ("makespan, s", "makespan_s", STRATA[0]),
    ("mean wait, s", "wait_s", STRATA[0]),
)
_HEADINGS = [words for words, *_ in _COLUMNS]
Row = Mapping[str, Any]


def looked_up(table: pd.DataFrame, stratum: str = ALL) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return rows of a comparison by scheduler, application and metric; of one ``stratum`` where it has several."""
    rows = table[table["stratum"] == stratum] if "stratum" in table else table
    records = [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]
    return {(row["scheduler"], row["application"], row["metric"]): row for row in records}


def cell(row: Row, baseline: str = EASY) -> str:
    """Return a mean and its change in per cent with the standard error, bold where the interval leaves out 0."""
    form = METRICS[row["metric"]].form
    mean = format(row["mean"], form)
    if row["scheduler"] == baseline:
        return f"{mean} ± {format(row['mean_error'], form)}" if np.isfinite(row["mean_error"]) else mean
    if not np.isfinite(row["relative"]):
        return mean
    error = f" ± {100 * row['relative_error']:.1f}" if np.isfinite(row["relative_error"]) else ""
    change = f"{signed(100 * row['relative'], '.1f')}{error} %"
    return f"{mean}, {bold(change, row)}"


def seconds(table: pd.DataFrame) -> str:
    """Return how long a trial takes, a row a setting of :meth:`benchmarks.papers.nichols.trials.Bench.timed`."""
    rows = [[f"a trial of ADAA, 190 jobs: {row['what']}", f"{row['seconds']:.3f}"] for row in table.to_dict("records")]
    return markdown(["", "seconds"], rows)


def bold(text: str, row: Row) -> str:
    """Return ``text`` in bold where the row's interval leaves out 0."""
    sure = row["low"] > 0 or row["high"] < 0
    return f"**{text}**" if sure else text


def lines(table: pd.DataFrame) -> list[list[str]]:
    """Return the cells of a row a setting of :func:`benchmarks.papers.nichols.rush.beside_easy`."""
    at = {stratum: looked_up(table, stratum) for stratum in table["stratum"].unique()}
    baseline, rows = table["against"].iloc[0], []
    for name in table["scheduler"].unique():
        cells = [cell(at[stratum][name, ALL, metric], baseline) if stratum in at else "" for _, metric, stratum in _COLUMNS]
        share = at[ALL][name, ALL, "varied"]["skipped"]
        rows.append([name, *cells, "" if share == 0 else f"{100 * share:.0f} %"])
    return rows


def settings_table(what: str, table: pd.DataFrame) -> str:
    """Return a row a setting, under the heading ``what``."""
    return markdown([what, *_HEADINGS, "skipped of asked"], lines(table))


def ladder(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return every part alone, against EASY with best fit and with first fit, and both ladders."""
    first, rows = looked_up(tables["first"]), lines(tables["apart"])
    for row in rows:
        row.insert(1, cell(first[row[0], ALL, "varied"], "EASY, first fit").partition(", ")[2])
    text = [markdown(["ADAA", "against first fit", *_HEADINGS, "skipped of asked"], rows)]
    text += [f"{model}'s ladder:\n\n{settings_table(model, tables[f'steps {model}'])}" for model in ("model", "oracle")]
    return "\n\n".join(text)


def experiments(conducted: Sequence[Conducted]) -> str:
    """Return a row an experiment and scheduler, with the runs that vary by themselves alone on the machine."""
    rows = []
    for each in conducted:
        at = {stratum: looked_up(each.strata, stratum) for stratum in each.strata["stratum"].unique()}
        alone = by_themselves(each)
        for scheduler in each.schedulers:
            cells = [cell(at[stratum][scheduler, ALL, metric]) if stratum in at else "" for _, metric, stratum in _COLUMNS]
            share = "" if scheduler == EASY else f"{100 * asking_rate(each.runs, scheduler):.0f} %"
            rows.append([each.experiment.name, scheduler, *cells, share, f"{alone[scheduler]:.2f}"])
    return markdown(["", "scheduler", *_HEADINGS, "skipped of asked", "vary by themselves"], rows, keys=2)


def by_application(each: Conducted) -> str:
    """Return all metrics of one experiment, a row a metric and application, a column a scheduler."""
    at = looked_up(each.strata)
    rows = [
        [f"{metric.title}: {name}", *(cell(at[scheduler, name, key]) for scheduler in each.schedulers)]
        for key, metric in METRICS.items()
        for name in (ALL, *(each.experiment.applications if key != "makespan_s" else ()))
    ]
    return markdown([each.experiment.name, *each.schedulers], rows)


def by_themselves(each: Conducted) -> pd.Series:
    """Return how many runs with variation a trial exceed their limit alone on the machine, by scheduler.

    Their own spread is enough for that, and no scheduler can help it.
    """
    runs = each.runs
    limit = each.usual_times["limit_s"].reindex(pd.MultiIndex.from_frame(runs[["application", "nodes"]])).to_numpy()
    return (runs["varied"] & (runs["work_s"].to_numpy() > limit)).groupby(runs["scheduler"]).sum() / each.trials


def of_month(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare sums over days of one load with EASY's, with errors over days."""
    wide = rows.pivot(index="day", columns="scheduler", values=["varied", "wait_s", "runtime"]).astype("float64")
    wide.columns = pd.MultiIndex.from_tuples([(scheduler, ALL, metric) for metric, scheduler in wide.columns])
    return compared(wide.rename_axis(columns=["scheduler", "application", "metric"]), EASY)


def month(table: pd.DataFrame) -> str:
    """Return a row a load and scheduler of :func:`benchmarks.papers.nichols.rush.months`."""
    rows = []
    for load, of_load in table.groupby("load"):
        at = looked_up(of_month(of_load))
        easy = of_load[of_load["scheduler"] == EASY]
        jobs, days = easy["jobs"].sum(), easy["day"].nunique()
        for name in of_load["scheduler"].unique():
            whole = of_load[of_load["scheduler"] == name].iloc[0]
            varied, wait = at[name, ALL, "varied"], at[name, ALL, "wait_s"]
            waited, removed = f"{wait['mean'] * days / jobs:,.0f}", ""
            if name != EASY:
                change = f"{signed(wait['difference'] * days / jobs, ',.0f')} ± {wait['error'] * days / jobs:,.0f}"
                waited += f", {bold(change, wait)}"
                removed = ", " + bold(f"{signed(100 * varied['relative'], '.1f')} ± {100 * varied['relative_error']:.1f} %", varied)
            rows.append(
                [
                    *(f"{load:g}", name, f"{100 * varied['mean'] * days / jobs:.2f} %{removed}", waited),
                    *(f"{at[name, ALL, 'runtime']['mean'] * days / jobs:.3f}", f"{whole['worst']:.2f}"),
                    *(
                        f"{100 * whole['utilization']:.1f} %",
                        f"{whole['asked']:,}",
                        f"{whole['skipped'] / max(whole['asked'], 1):.0%}",
                    ),
                ]
            )
    columns = ["load", "scheduler", "runs with variation", "mean wait, s", "mean runtime / usual", "99th percentile", "utilization"]
    return markdown([*columns, "asked", "skipped"], rows, keys=2)
