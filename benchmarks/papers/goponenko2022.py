"""Check the conclusions of Goponenko et al. (2022) on KTH-SP2 and SDSC-SP2.

Goponenko, Lamar, Peterson, Allan, Brandt & Dechev, "Metrics for packing efficiency and fairness of HPC cluster batch job scheduling" (SBAC-PAD
2022). ``python -m benchmarks.papers.goponenko2022`` prints the card docs/studies/goponenko-2022.md, ``--write`` makes it, its picture and its
data. Needs the traces under ``--shared``. Schedulers are compared with JustBF with the same runtimes, requested and exact (the slides do not say which
of the two each conclusion is drawn from), by mean bounded slowdown, AWF and P2SF; a change is beyond its interval where the interval of 95 % over
weeks excludes none, one comparison at a time. Per-second semantics. Their second example, predictions, is
:mod:`benchmarks.papers.goponenko2022_predictions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from benchmarks.common.card import Card, parser, study
from benchmarks.common.dots import dots
from benchmarks.papers import goponenko2022_predictions as second
from features.jobs.cleaning import CleanTrace, clean
from pipelines.readers.swf import read_swf
from sim import Campaign, campaign_schedules
from sim.metrics.comparison import compare

TRACES = {"KTH-SP2": ("KTH-SP2-1996-2.swf.gz", None), "SDSC-SP2": ("SDSC-SP2-filtered.swf.gz", 128)}
SCHEDULERS = ("JustBF", "SJF-JustBF", "SAF-JustBF", "LAF-JustBF", "EASY", "EASY-SJBF")
PREDICTORS = ("requested", "clairvoyant")
METRICS = {"mean_bounded_slowdown": "bounded slowdown", "awf_s": "AWF", "p2sf_s": "P2SF"}
BSLD, AWF, P2SF = METRICS
CLOSE = 0.03
"""What counts as close, where the paper says close."""


COLUMNS = ("trace", "scheduler", "predictor", "correction", "metric", "value", "relative", "low", "high")
"""Of the data, with ``example``: 1 compares with JustBF, 2 with requested times."""


def traces(shared: Path) -> Iterator[tuple[str, CleanTrace]]:
    """Yield the traces by title."""
    for title, (file, procs) in TRACES.items():
        yield title, clean(read_swf(shared / "traces" / file), procs)


def comparisons(shared: Path) -> pd.DataFrame:
    """Compare every scheduler with JustBF with the same runtimes: a row a metric."""
    tables = []
    for title, trace in traces(shared):
        for predictor in PREDICTORS:
            asked = Campaign(schedulers=SCHEDULERS, predictors=(predictor,))
            schedules = campaign_schedules(trace.jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)
            tables.append(compare(schedules, ("JustBF", predictor), tuple(METRICS)).assign(trace=title))
    return pd.concat(tables, ignore_index=True)


def cell(table: pd.DataFrame, scheduler: str, metric: str, predictor: str = "requested") -> pd.Series:
    """The one row of a scheduler, predictor and metric."""
    chosen = table[(table["scheduler"] == scheduler) & (table["predictor"] == predictor) & (table["metric"] == metric)]
    return chosen.iloc[0]


def conclusions(table: pd.DataFrame, predictor: str) -> dict[str, str]:
    """Check what the paper concludes, on one trace with these runtimes: the verdict on each claim."""

    def best(metric: str) -> str:
        return min(SCHEDULERS, key=lambda scheduler: float(cell(table, scheduler, metric, predictor)["value"]))

    def beyond(scheduler: str, metric: str, sign: int) -> bool:
        row = cell(table, scheduler, metric, predictor)
        return bool((row["low"] > 0) if sign > 0 else (row["high"] < 0))

    fair = best(P2SF)
    verdicts = {"JustBF is best at P2SF": HOLDS if fair == "JustBF" else f"{FAILS_TO}: best is {fair}"}
    for scheduler in ("SAF-JustBF", "SJF-JustBF"):
        each = beyond(scheduler, BSLD, -1), beyond(scheduler, AWF, 1), beyond(scheduler, P2SF, 1)
        verdicts[f"{scheduler}: slowdown better, packing and fairness worse"] = verdict(all(each), each[0])
    rest = beyond("LAF-JustBF", AWF, -1), beyond("LAF-JustBF", BSLD, 1), beyond("LAF-JustBF", P2SF, 1)
    packs = best(AWF) == "LAF-JustBF"
    verdicts["LAF-JustBF is best in packing, the rest worse"] = verdict(packs and all(rest), packs)
    if predictor == "requested":  # the last conclusion is about time limits
        near = [abs(float(cell(table, "EASY", metric, predictor)["relative"])) <= CLOSE for metric in (AWF, P2SF)]
        verdicts["by time limits EASY is close to JustBF in AWF and P2SF"] = verdict(all(near), near[0])
    return verdicts


HOLDS, IN_PART, FAILS_TO = "holds", "in part", "does not"


def verdict(whole: bool, partly: bool) -> str:
    """Say whether a claim holds."""
    return HOLDS if whole else IN_PART if partly else FAILS_TO


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a claim."""
    columns: dict[str, dict[str, str]] = {}
    for title, predictor in product(TRACES, PREDICTORS):
        table = rows[(rows["trace"] == title) & (rows["example"] == 1)]
        columns[f"{title}, {'exact' if predictor == 'clairvoyant' else predictor}"] = conclusions(table, predictor)
    for title in TRACES:
        predicted = second.conclusions(rows[(rows["trace"] == title) & (rows["example"] == 2)])
        columns[f"{title}, requested"] |= {claim: verdict(*each) for claim, each in predicted.items()}
    verdicts = pd.DataFrame(columns).fillna(EMPTY)
    exact = [text for name in verdicts.filter(like="exact") for text in verdicts[name] if text != EMPTY]
    words = verdicts.map(lambda text: text.partition(":")[0]).to_numpy().ravel().tolist()
    return Card(
        question="Do the conclusions of Goponenko et al. (2022) hold?",
        answer=f"Of {len(words) - words.count(EMPTY)} checks ({len(verdicts)} conclusions, {len(TRACES)} of their traces), {words.count(HOLDS)} hold, "
        f"{words.count(IN_PART)} hold in part and {words.count(FAILS_TO)} do not. With exact runtimes, {exact.count(HOLDS)} of {len(exact)} hold.",
        picture="goponenko-2022.png",
        picture_caption="Change relative to JustBF with requested times, 95 % over weeks",
        table=verdicts.rename_axis("conclusion").reset_index(),
        table_caption="Verdicts by 95 % intervals over weeks, each alone; close is within 3 %. The last three conclusions replace requested times by the "
        "paper's six predictors with two corrections, and judge EASY-SJBF and SAF-JustBF by slowdown, LAF-JustBF by AWF (packing), JustBF by P2SF "
        "(packing and fairness):",
        fails="The slides draw bars without numbers, and name neither runtimes nor corrections: only conclusions can be checked, no digits. "
        "What counts as close, easy and difficult is our choice.",
        data=["goponenko-2022.csv"],
        made_by=made_by,
    )


EMPTY = "–"


def draw(rows: pd.DataFrame) -> bytes:
    """Draw the change relative to JustBF with requested times, three metrics, a panel a trace."""
    chosen = rows[(rows["example"] == 1) & (rows["predictor"] == "requested") & (rows["scheduler"] != "JustBF")]
    shown = chosen.rename(columns={"trace": "panel", "scheduler": "row"}).assign(series=chosen["metric"].map(METRICS))
    shown[["value", "low", "high"]] = 100 * chosen[["relative", "low", "high"]]
    return dots(shown, "change relative to JustBF, %", dict.fromkeys(TRACES, 0.0), linear=10)


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__).parse_args(argv)

    def compute() -> pd.DataFrame:
        examples = comparisons(options.shared), second.comparisons(traces(options.shared), tuple(METRICS))
        return pd.concat([table[[*COLUMNS]].assign(example=number) for number, table in enumerate(examples, 1)], ignore_index=True)

    study(options, "papers.goponenko2022", "goponenko-2022.csv", compute, card, draw)


if __name__ == "__main__":
    main()
