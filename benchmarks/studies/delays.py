"""Judge the model of delays, ``ordinal``, on the simulated cluster ``congested``.

``ordinal`` gives the probability that z exceeds each of 0.5, 1.2, 1.5, 3 and 6, from 28 columns: counters of the file system, one probe, the newest
sample, what runs and where, the type. Nodes are placed by best fit, and every model is judged on the same runs. A block's cutoff is the best
on the other blocks; intervals are over days. *Skill* is the share of the Brier score of base rates by application that a model saves (of the
whole distribution: Brier scores of all five thresholds together). *Said* is a mean probability, *came* the share of runs.

``python -m benchmarks.studies.delays`` prints tables; ``--write`` puts them into docs/studies/data/variability.csv and makes the card
docs/studies/variability.md with its picture; ``--card`` makes the card of the data as they lie there. What models said is made by
:mod:`benchmarks.studies.delay_answers` and kept under ``--keep``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from benchmarks.common.card import Card, made_before
from benchmarks.common.pages import HOUSE, STUDIES, kept, made_by
from benchmarks.common.tables import kept_table, markdown, write_data
from benchmarks.studies.delay_answers import (
    COMPARED,
    DAYS,
    EACH,
    ELSEWHERE,
    FEW,
    LASTING,
    LASTING_EACH,
    LEARNED,
    OVER,
    SEED,
    USUALLY,
    Asked,
    Seen,
    judged,
    lasting,
    later,
    simulated,
)
from benchmarks.studies.variability import PAGE, RUN, START
from features.monitoring.labels import DELAYS
from models.variability.evaluation import ALL, BLOCKED, LEFT_OUT, measured
from models.variability.reliability import share, skill, squared_error
from pipelines.report.style import INK, MUTED, encode, figure
from sim.cluster.experiments import VARIES

EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
AT = DELAYS.index(VARIES)


def cell(value: float, low: float, high: float, digits: int = 3) -> str:
    """A figure with its interval."""
    return f"{value:.{digits}f}" + (f" [{low:.{digits - 1}f}, {high:.{digits - 1}f}]" if np.isfinite(low) else "")


def percent(value: float, low: float, high: float) -> str:
    """A share with its interval."""
    return f"{value:.1%}" + (f" [{low:.1%}, {high:.1%}]" if np.isfinite(low) else "")


def scores(predicted: pd.DataFrame) -> pd.DataFrame:
    """Return :func:`models.variability.evaluation.measured` of all runs, by ``features classifier measure``."""
    rows = measured(predicted.assign(application=ALL)).drop_duplicates(["protocol", "features", "classifier", "measure"])
    return rows.set_index(["features", "classifier", "measure"])


def compared_table(predicted: pd.DataFrame, compared: tuple[Asked, ...]) -> str:
    """Average precision, F1 and skill of every model."""
    measures, rows = scores(predicted), []
    for asked in compared:
        own = predicted[(predicted["features"] == asked.name) & (predicted["classifier"] == asked.classifier)]
        cells = [
            cell(*measures.loc[(asked.name, asked.classifier, measure), ["value", "low", "high"]])
            for measure in ("average_precision", "f1")
        ]
        rows.append([asked.name, asked.classifier, *cells, *skills(own)])
    headings = ["columns", "classifier", "average precision", "F1", "skill, z > 1.5", "skill, whole distribution"]
    return markdown(headings, rows, keys=2)


def skills(predicted: pd.DataFrame) -> list[str]:
    """By how much Brier score and ranked probability score are below those of base rates by application."""
    start_s, varied = predicted["start_s"].to_numpy(), predicted["varied"].to_numpy()
    first = skill(squared_error(predicted["probability"], varied), squared_error(predicted[USUALLY[AT]], varied), start_s)
    if predicted[OVER].isna().all(axis=None):
        return [cell(*first), "–"]
    over = predicted["z"].to_numpy()[:, None] > np.asarray(DELAYS)
    whole = skill(squared_error(predicted[OVER].to_numpy(), over), squared_error(predicted[USUALLY].to_numpy(), over), start_s)
    return [cell(*first), cell(*whole)]


def of_model(predicted: pd.DataFrame, name: str = FEW) -> pd.DataFrame:
    """The rows of ``ordinal`` with the columns ``name``."""
    return predicted[(predicted["features"] == name) & (predicted["classifier"] == LEARNED)]


def reliability(probability: np.ndarray, came: np.ndarray, start_s: np.ndarray, edges: Sequence[float]) -> pd.DataFrame:
    """Return what was said and what came, a row for each bin of probability that holds runs.

    Bins lie between ascending ``edges``, the lower one included, the last one with both. Columns ``above below runs said`` (mean
    probability) ``came low high`` (share of the runs for which ``came``, bool [runs], and its 95 % interval over days).
    """
    bins = np.clip(np.searchsorted(np.asarray(edges), probability, side="right") - 1, 0, len(edges) - 2)
    rows = []
    for number in np.unique(bins).tolist():
        inside = (bins == number).astype(np.float64)
        value, low, high = share(inside * came, inside, start_s)
        of_bin = {"above": edges[number], "below": edges[number + 1], "runs": int(inside.sum())}
        rows.append({**of_bin, "said": float(probability[bins == number].mean()), "came": value, "low": low, "high": high})
    return pd.DataFrame(rows)


def reliable(predicted: pd.DataFrame) -> pd.DataFrame:
    """Return the reliability of the probability to vary."""
    return reliability(predicted["probability"].to_numpy(), predicted["varied"].to_numpy(), predicted["start_s"].to_numpy(), EDGES)


def reliability_table(blocks: pd.DataFrame, elsewhere: pd.DataFrame) -> str:
    """Said against came by bins of probability, in blocks of time and with applications left out."""
    one, other = (reliable(of_model(predictions)) for predictions in (blocks, elsewhere))
    rows = []
    for low, high in pairwise(EDGES):
        cells = [f"{low:.0%} to {high:.0%}"]
        for row in (row for table in (one, other) for row in table[table["above"] == low].to_dict("records") or [None]):
            cells += (
                [f"{row['runs']:,}", f"{row['said']:.1%}", percent(row["came"], row["low"], row["high"])]
                if row
                else ["0", "–", "–"]
            )
        rows.append(cells)
    return markdown(["probability", *(["runs", "said", "came"] * 2)], rows)


def thresholds_table(predicted: pd.DataFrame) -> str:
    """Mean probability and share of runs over each threshold, and the Brier score beside the constant's."""
    own = of_model(predicted)
    start_s, ones = own["start_s"].to_numpy(), np.ones(len(own))
    rows = []
    for end, over, usually in zip(DELAYS, OVER, USUALLY, strict=True):
        true = (own["z"] > end).to_numpy()
        mine, constant = squared_error(own[over], true), squared_error(own[usually], true)
        cells = [f"{own[over].mean():.1%}", percent(*share(true.astype(float), ones, start_s))]
        rows.append([f"z > {end:g}", *cells, f"{mine.mean():.4f}", f"{constant.mean():.4f}", cell(*skill(mine, constant, start_s))])
    return markdown(["threshold", "said", "came", "Brier score", "of base rates", "skill"], rows)


def tenths(predicted: pd.DataFrame) -> pd.DataFrame:
    """Return what was expected and what came by tenths of the mean z to expect, in z and seconds."""
    own = of_model(predicted)
    tenth = np.floor(own["longer"].rank(method="first").to_numpy() * 10 / (len(own) + 1)).astype(int)
    start_s, rows = own["start_s"].to_numpy(), []
    for number in range(10):
        inside = (tenth == number).astype(float)
        longer = own["longer"].to_numpy() * own["sigma_s"].to_numpy()
        means = {"said": (own["longer"].to_numpy() * inside).sum() / inside.sum(), "said_s": (longer * inside).sum() / inside.sum()}
        in_z = share(own["z"].to_numpy() * inside, inside, start_s)
        in_s = share((own["z"] * own["sigma_s"]).to_numpy() * inside, inside, start_s)
        rows.append({"tenth": number + 1, **means, **dict(zip(("came", "low", "high"), in_z, strict=True)), "came_s": in_s})
    return pd.DataFrame(rows)


def tenths_table(predicted: pd.DataFrame) -> str:
    """How much longer runs took than expected, by tenths."""
    rows = [
        [str(row.tenth), f"{row.said:+.2f}", cell(row.came, row.low, row.high), f"{row.said_s:+.1f}", cell(*row.came_s, digits=2)]
        for row in tenths(predicted).itertuples()
    ]
    return markdown(["tenth", "z said", "z came", "seconds said", "seconds came"], rows)


def attacks_table(tables: dict[str, pd.DataFrame]) -> str:
    """What the model is worth where something is wrong."""
    rows = []
    for what, predictions in tables.items():
        row = scores(predictions).xs("average_precision", level="measure").iloc[0]
        both = f"{predictions['probability'].mean():.1%}, {predictions['varied'].mean():.1%}"
        rows.append([what, f"{len(predictions):,}", cell(row["value"], row["low"], row["high"]), both, *skills(predictions)])
    return markdown(["", "runs", "average precision", "said, came", "skill, z > 1.5", "skill, whole distribution"], rows)


def picture(blocks: pd.DataFrame, elsewhere: pd.DataFrame) -> bytes:
    """Reliability of the probability to vary, and the mean z by tenths."""
    with figure(9, 3.8, generated=True, what="simulated cluster congested") as drawn:
        left, right = drawn.subplots(1, 2)
        for predictions, name, colour, mark in (
            (blocks, "blocks of time", "#0072b2", "o"),
            (elsewhere, "application left out", "#d55e00", "s"),
        ):
            bins, by = reliable(of_model(predictions)), tenths(predictions)
            for axis, table in ((left, bins), (right, by)):
                reach = np.abs(table[["low", "high"]].to_numpy().T - table["came"].to_numpy())
                axis.errorbar(table["said"], table["came"], reach, color=colour, marker=mark, ms=4, capsize=2, lw=1.2, label=name)
        for axis, ends in ((left, (0.002, 1.0)), (right, (-0.8, 3.5))):
            axis.plot(ends, ends, color=MUTED, lw=0.8, ls="--")
        left.set_xscale("log")
        left.set_yscale("log")
        for axis in (left.xaxis, left.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        left.set(xlabel="probability to vary that was said", title="reliability")
        left.set_ylabel("share that varied", color=INK)
        right.set(xlabel="mean z that was said, by tenths", ylabel="mean z that came", title="how much longer")
        left.legend(loc="upper left")
        return encode(drawn, "png")


def card(provenance: str) -> Card:
    """Return the card of how well variation is predicted, from the data of both studies."""
    data = pd.read_csv(STUDIES / "data" / "variability.csv", keep_default_na=False)
    ceiling = kept_table(data, "ceilings").iloc[0]
    models = kept_table(data, "delay-compared").set_index(["columns", "classifier"])
    names = ("282 columns", FEW, "few columns, shuffled labels", START, RUN)
    shown = models.loc[[("282 columns", "lightgbm"), *((name, LEARNED) for name in names)]].copy()
    for name in shown.columns[1:]:
        shown[name] = shown[name].str.partition(" ")[0]
    runs = kept_table(data, "delay-attacks").iloc[0]["runs"]
    precision = {name: models.loc[(name, LEARNED), "average precision"].partition(" ")[0] for name in (FEW, START)}
    varied = kept_table(data, "delay-thresholds").set_index("threshold").loc["z > 1.5", "came"]
    return Card(
        question="How well can a slow run be predicted?",
        answer=f"In blocks of time the best classifier of counters reaches an F1 of {ceiling['F1']}: {ceiling['told at start, share']} of the F1 of perfect "
        f"sensors at the start, {ceiling['told the run, share']} of the F1 with the run's own contention known, and less than the 0.95 of Nichols et al. "
        f"The scheduler's own model, `ordinal` on few columns, has an average precision of {precision[FEW]} (perfect sensors: "
        f"{precision[START]}), and its probabilities match observed frequencies.",
        table=shown.reset_index(),
        table_caption=f"{runs} simulated control runs over {DAYS} days, {varied} of them with z > 1.5, in blocks of time; 95 % intervals over days. "
        "More is better; the last two rows know the truth.",
        fails="Everything is simulated. Predictions miss the future: bursts that begin, and neighbours that start, while the job runs. "
        "Sensors that change after training do harm: with counters that read 10 % too much, the model predicts twice as many delays as occur. The "
        "probabilities of the rarest delays (z > 6) are too low. The F1 of counters was computed with first-fit placement.",
        data=["variability.csv"],
        made_by=provenance,
        picture="variability-delays.png",
        picture_caption="Reliability of the probability to vary; how much longer runs take, predicted and observed.",
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Compute what is not kept yet, print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "delays")
    parser.add_argument("--write", action="store_true", help="write the tables as data, the card and its picture")
    parser.add_argument("--card", action="store_true", help="write the card of the data as they are")
    asked = parser.parse_args(argv)
    if asked.card:
        card(made_before("variability")).write("variability")
        return

    def control() -> Seen:
        return simulated("congested", SEED, EACH)

    def once(what: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        return kept(asked.keep, "studies.delay_answers", (what, DAYS, EACH, SEED, LASTING_EACH), make)

    blocks = once("blocks", lambda: judged(control(), BLOCKED, COMPARED))
    elsewhere = once("elsewhere", lambda: judged(control(), LEFT_OUT, ELSEWHERE))
    after = once("later", lambda: later(control()))
    longer = once("lasting", lambda: lasting(control()))
    own = of_model(blocks)
    second = own[own["row"].isin(after["row"])]
    attacks = {
        "as it is": own,
        "its second half": second,
        "second half, learned from the first half alone": after,
        **{
            what: of_model(blocks, what)
            for what in ("each value off by 10 %", "each counter 10 % too high", "20 % of values missing")
        },
        **{f"disturbances last {LASTING} times as long, {name}": rows for name, rows in longer.groupby("features", sort=False)},
    }
    parts = {
        "delay-compared": compared_table(blocks, COMPARED),
        "delay-left-out": compared_table(elsewhere, ELSEWHERE),
        "delay-reliability": reliability_table(blocks, elsewhere),
        "delay-thresholds": thresholds_table(blocks),
        "delay-tenths": tenths_table(blocks),
        "delay-attacks": attacks_table(attacks),
    }
    if asked.write:
        write_data(PAGE, parts)
        (STUDIES / "variability-delays.png").write_bytes(picture(blocks, elsewhere))
        card(made_by("studies.delays", argv)).write("variability")
    else:
        for name, text in parts.items():
            print(f"## {name}\n\n{text}\n")


if __name__ == "__main__":
    main()
