"""Draw the picture of the README, slowdown by predictor, from the data of ``schedules``.

``python -m benchmarks.studies.picture`` prints the bars, ``--write`` draws docs/slowdown.png. Nothing is simulated.
"""

from __future__ import annotations

import argparse

import pandas as pd
from matplotlib.patches import Patch

from benchmarks.common.pages import HOUSE, STUDIES
from pipelines.report.style import INK, MUTED, encode, figure

TRACE, SCHEDULER, CORRECTION = "kth-sp2-filtered", "EASY-SJBF", "conditional(when=pass)"
FREE, PAID, PLAIN = "#0072b2", "#e69f00", MUTED
WORDS = {
    FREE: "packing and fairness not surely worse",
    PAID: "packing (AWF) or fairness (P2SF) surely worse",
    PLAIN: "no prediction, or perfect knowledge",
}
NAMED = {"requested": "requested times", "requested*2": "twice the requested time", "clairvoyant": "exact runtimes (a bound)"}


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a predictor, the highest slowdown first, plain EASY on top.

    Columns: ``label slowdown relative low high colour``. All are of the whole trace and relative to plain EASY with requested times.
    """
    rows = table[(table["trace"] == TRACE) & (table["part"] == "whole") & (table["against"] == "EASY / requested")]
    chosen = (rows["scheduler"] == SCHEDULER) & rows["correction"].isin([CORRECTION, "requested"])
    rows = rows[chosen | ((rows["scheduler"] == "EASY") & (rows["predictor"] == "requested"))]
    worse = rows[rows["metric"].isin(["awf_s", "p2sf_s"]) & (rows["low"] > 0) & (rows["replicates"] > 1)]
    paid = set(zip(worse["scheduler"], worse["predictor"], strict=True))
    rows = rows[rows["metric"] == "mean_bounded_slowdown"].sort_values("value", ascending=False)
    made = []
    for row in rows.to_dict("records"):
        known = row["predictor"] in ("requested", "clairvoyant")
        colour = PLAIN if known else PAID if (row["scheduler"], row["predictor"]) in paid else FREE
        told = {name: row[name] for name in ("relative", "low", "high")}
        label = f"{row['scheduler']}: {NAMED.get(row['predictor'], row['predictor'])}"
        made.append({"label": label, "slowdown": row["value"], "colour": colour, **told})
    return pd.DataFrame(made)


def draw(made: pd.DataFrame) -> bytes:
    """Draw a bar a predictor, its change against the first behind it."""
    with figure(8.6, 4.4, generated=False) as canvas:
        axes = canvas.subplots()
        axes.barh(made["label"], made["slowdown"], color=made["colour"], height=0.66)
        for place, row in enumerate(made.to_dict("records")):
            text = f"{100 * row['relative']:+.0f} % [{100 * row['low']:+.0f}, {100 * row['high']:+.0f}]" if row["relative"] else ""
            axes.text(row["slowdown"] + 0.8, place, text, va="center", fontsize=8.5, color=INK)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, 1.12 * made["slowdown"].max())
        axes.set_xlabel("mean bounded slowdown: how many times its runtime a job is in the system")
        handles = [Patch(color=colour, label=words) for colour, words in WORDS.items()]
        canvas.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8)
        return encode(canvas, "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="draw docs/slowdown.png")
    options = parser.parse_args()
    made = bars(pd.read_parquet(STUDIES / "data" / "schedules.parquet"))
    print(made.drop(columns="colour").round(3).to_string(index=False))
    if options.write:
        (HOUSE / "docs" / "slowdown.png").write_bytes(draw(made))


if __name__ == "__main__":
    main()
