"""The benchmark's tables, and its page: cost by number of jobs, and jobs a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipelines.report.page import data_uri, template
from pipelines.report.style import MUTED, ImageFormat, encode, figure, looks
from pipelines.report.table import Table
from pipelines.workflows.bench import Key, Row, key

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_TITLES = {
    "figures": "Simulation alone, one core, median",
    "long_queue": "With thousands of jobs waiting",
    "growth": "Cost by number of jobs",
}


def listings(document: Mapping[str, Any], earlier: Mapping[Key, float]) -> list[Table]:
    """Return the tables of a benchmark's document, without empty ones.

    ``earlier`` holds jobs a second of another run, and may be empty.
    """
    headings = ["trace", "scheduler", "jobs", "waiting, mean", "waiting, most", "seconds", "spread", "million jobs/s", "peak GiB"]
    headings += ["times as fast as before"] if earlier else []
    tables = []
    for section, title in _TITLES.items():
        if rows := document[section]:
            traces = [row["trace"] for row in rows]
            classes = ["first" if before not in ("", trace) else "" for before, trace in zip(["", *traces], traces, strict=False)]
            tables.append(Table(title, headings, [_cells(row, earlier) for row in rows], keys=2, classes=classes))
    return [*tables, *([_against_oracle(document["oracle"])] if "oracle" in document else [])]


def _cells(row: Row, earlier: Mapping[Key, float]) -> list[str]:
    cells = [row["trace"], row["scheduler"], f"{row['jobs']:,}", f"{row['waiting_mean']:,.0f}", f"{row['waiting_max']:,}"]
    cells += [f"{row['median_s']:.4f}", _spread(row), f"{row['jobs_per_s'] / 1e6:.2f}", f"{row['peak_gib']:.2f}"]
    if earlier:
        cells.append(f"{row['jobs_per_s'] / earlier[key(row)]:.2f}" if key(row) in earlier else "")
    return cells


def _spread(row: Row) -> str:
    """Return the spread from fastest to slowest, relative to the median."""
    return f"{100 * (row['slowest_s'] - row['fastest_s']) / row['median_s']:.0f} %" if row["repeat"] > 1 else "-"


def _against_oracle(oracle: Mapping[str, Any]) -> Table:
    rows = [
        [
            row["trace"],
            row["scheduler"],
            f"{row['jobs']:,}",
            f"{row['oracle_s']:.2f}",
            f"{row['median_s']:.5f}",
            f"{row['times']:,.0f}",
        ]
        for row in oracle["rows"]
    ]
    left_out = f"not known to the oracle: {', '.join(oracle['left_out'])}" if oracle["left_out"] else ""
    said = "every job starts at the same second in both" if rows else ""
    return Table(
        "Against the plain-Python oracle",
        ["trace", "scheduler", "jobs", "oracle, s", "simulator, s", "times as fast"],
        rows,
        "; ".join(text for text in (oracle["note"], said, left_out) if text),
        keys=2,
    )


def exponent(rows: Sequence[Row]) -> float | None:
    """Return the power of the number of jobs with which seconds grow; None for one size.

    By least squares of logarithms.
    """
    jobs, seconds = np.log([row["jobs"] for row in rows]), np.log([row["median_s"] for row in rows])
    return float(np.polyfit(jobs, seconds, 1)[0]) if len(set(jobs.tolist())) > 1 else None


def growth(rows: Sequence[Row], image: ImageFormat = "svg") -> bytes:
    """Draw seconds against number of jobs, a line a scheduler, on logarithmic axes.

    With fitted exponents and a reference line of slope 1.
    """
    names = _unique(row["scheduler"] for row in rows)
    table = looks((name, "requested", "") for name in names)
    with figure(10.5, 5.2, True) as drawing:
        panel = drawing.subplots()
        for rank, name in enumerate(names):
            own = sorted((row for row in rows if row["scheduler"] == name), key=lambda row: row["jobs"])
            power = exponent(own)
            panel.plot(
                [row["jobs"] for row in own],
                [row["median_s"] for row in own],
                color=table[name, "requested", ""].colour,
                marker=_MARKERS[rank % len(_MARKERS)],
                markersize=5,
                linewidth=1.5,
                label=name if power is None else f"{name}: jobs to the power {power:.2f}",
            )
        ends = np.array([min(row["jobs"] for row in rows), max(row["jobs"] for row in rows)])
        cheapest = min(row["median_s"] / row["jobs"] for row in rows)
        panel.plot(ends, 0.6 * cheapest * ends, color=MUTED, linestyle="--", linewidth=1, label="slope 1: proportional to the jobs")
        panel.set(xscale="log", yscale="log", xlabel="jobs", ylabel="seconds")
        sizes = sorted({row["jobs"] for row in rows})
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
        panel.legend(loc="upper left", fontsize=8.5)
        return encode(drawing, image)


def speeds(rows: Sequence[Row], image: ImageFormat = "svg") -> bytes:
    """Draw jobs a second, a row a scheduler, a mark a workload.

    Lines reach from the slowest to the fastest simulation.
    """
    names, traces = _unique(row["scheduler"] for row in rows), _unique(row["trace"] for row in rows)
    table = looks((trace, "requested", "") for trace in traces)
    with figure(10.5, 1.5 + 0.42 * len(names), all(row["generated"] for row in rows)) as drawing:
        panel = drawing.subplots()
        for rank, trace in enumerate(traces):
            colour, marker = table[trace, "requested", ""].colour, _MARKERS[rank % len(_MARKERS)]
            shift = 0.5 * ((rank + 0.5) / len(traces) - 0.5)  # marks of about the same speed stay apart
            for row in (row for row in rows if row["trace"] == trace):
                place = names.index(row["scheduler"]) + shift
                ends = [row["jobs"] / row["slowest_s"], row["jobs"] / row["fastest_s"]]
                panel.plot(ends, [place, place], color=colour, linewidth=1.3, alpha=0.7)
                panel.plot(row["jobs_per_s"], place, marker, color=colour, markersize=5.5)
            panel.plot([], [], marker, color=colour, label=trace)
        panel.set(xscale="log", xlabel="jobs a second", ylim=(len(names) - 0.5, -0.5))
        panel.set_yticks(range(len(names)), names)
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(
            FuncFormatter(lambda speed, _: f"{speed / 1e6:g} million" if speed >= 1e5 else f"{speed:,.0f}")
        )
        panel.xaxis.set_minor_formatter(NullFormatter())
        drawing.legend(loc="outside lower center", ncols=4, fontsize=8.5)
        return encode(drawing, image)


def render(document: Mapping[str, Any], earlier: Mapping[Key, float], against: str) -> str:
    """Return the page, from values alone; ``against`` names the run of ``earlier``."""
    rows = [*document["figures"], *document["long_queue"]]
    figures = [
        {
            "title": "Jobs a second by algorithm and workload",
            "caption": "Marks are medians, lines reach from the slowest to the fastest simulation.",
            "image": data_uri(speeds(rows)),
        }
    ]
    if document["growth"]:
        first = document["growth"][0]
        figures.insert(
            0,
            {
                "title": "Cost against number of jobs",
                "caption": f"Workloads generated for {first['procs']} processors at the same offered load. "
                "Exponents are fitted by least squares of logarithms over all sizes drawn.",
                "image": data_uri(growth(document["growth"])),
            },
        )
    made_by = {name: document[name] for name in ("queuecast", "measured_at", "software")} | dict(document["machine"])
    fastest, most, longest = (max(rows, key=itemgetter(name)) for name in ("jobs_per_s", "jobs", "waiting_mean"))
    jobs = f"jobs in the longest queue on average, {longest['waiting_max']:,} at most"
    sources = {row["trace"]: row["source"] for section in _TITLES for row in document[section]}
    return template("bench.html.j2").render(
        listings=listings(document, earlier),
        figures=figures,
        repeat=document["repeat"],
        facts=[
            (f"{fastest['jobs_per_s'] / 1e6:.1f} million", f"jobs a second at most: {fastest['scheduler']} on {fastest['trace']}"),
            (f"{most['jobs']:,}", f"jobs in the largest workload, {most['peak_gib']:.2f} GiB at its peak"),
            (f"{longest['waiting_mean']:,.0f}", f"{jobs}: {longest['scheduler']} on {longest['trace']}"),
        ],
        against=against if earlier else "",
        provenance=[
            *((name.replace("_", " "), value) for name, value in made_by.items()),
            ("load before it began", document["load_average"]),
            *sources.items(),
        ],
    )


def _unique(names: Any) -> list[str]:
    return list(dict.fromkeys(names))
