"""The page of predicted starts: predicted waits beside those that came true."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from models.packed.start_distribution import LEVELS
from models.packed.start_predictor import QUANTILES
from models.runtime.distribution import losses
from models.starts.evaluation import INTERVALS, MONTH_S, WAITED_S
from models.starts.evaluation import quality as quality_of
from pipelines.report.page import BLUE, INK, MUTED, Front, Picture, data_uri, figure, render
from pipelines.report.table import Table, duration

BINS = 10
_COLUMNS = ["job_id", "at_s", "user", "age_s", "version", "waited_s", "fits", "plan_s", "place", "chance_1h", *QUANTILES]
_CLASSES = ("waited a minute or less", "waited up to 1 h", "waited up to 4 h", "waited up to 24 h", "waited longer")
_CLASSES_S = (WAITED_S, 3_600.0, 14_400.0, 86_400.0)
_HINT = (
    "Errors are medians; losses are means over jobs and the levels 5 to 95 %. The plan is EASY's with requests, a point. The constant, quantiles of "
    "all waits in this table, knows what came. Intervals of 80 %: their median width at the question, and how many held among jobs that "
    "wait over a minute; of classes by the wait itself that share would mislead."
)
_RELIABILITY = (
    "Left: shares of waits that were at most each quantile; of all waits more than the level, where many jobs start at once. Right: chances to start "
    "within 1 h, and how often it happened; larger dots are more answers."
)


def render_starts(
    answers: pd.DataFrame,
    provenance: Mapping[str, object],
    trace: str = "",
    generated: bool = False,
    logged: pd.DataFrame | None = None,
) -> str:
    """Return the page of the table ``starts`` as one self-contained HTML file.

    ``answers`` has one row per question, answered by one version. ``logged`` are answers to users' questions
    (:func:`pipelines.serving.asked_log.started`).
    """
    if answers.empty:
        answers = answers.reindex(columns=_COLUMNS)  # a trace without questions has a table without these columns
    begun = judged(answers)
    waiting, versions = len(answers) - len(begun), answers["version"].nunique()
    front = Front(
        title=f"{trace}: when jobs start".removeprefix(": "),
        answer=answer(answers, begun),
        table=quality(begun),
        hint=_HINT if len(begun) else "",
        picture=Picture("", data_uri(reliability(begun, generated)), _RELIABILITY) if len(begun) else None,
        generated="prediction of starts" if generated else "",
        facts=[(f"{len(begun):,}", "answers judged"), (f"{waiting:,}", "about jobs that still wait"), (versions, "versions")],
        provenance=provenance,
    )
    tables = [months(begun), *([] if logged is None else [given(logged)])]
    return render("starts.html.j2", front, tables=tables, changes=[])


def judged(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers whose wait is known, with their losses in seconds.

    Added columns: ``loss plan_loss constant_loss error plan_error width_s``, and ``waits``, true for waits over a minute.
    """
    begun = answers[answers["waited_s"].notna()].reset_index(drop=True)
    waited, levels, waits_s = begun["waited_s"].to_numpy(np.float64), np.array(LEVELS), begun[list(QUANTILES)].to_numpy(np.float64)
    constant = np.quantile(waited, levels)[None] if len(waited) else np.zeros((1, len(levels)))
    plan = begun["plan_s"].to_numpy(np.float64)[:, None]
    for name, quantiles in {"loss": waits_s, "plan_loss": plan, "constant_loss": constant}.items():
        begun[name] = losses(quantiles, levels, waited).mean(axis=1)
    errors = {name: np.abs(begun[name_s] - waited) for name, name_s in (("error", "wait_50_s"), ("plan_error", "plan_s"))}
    return begun.assign(**errors, width_s=begun["wait_90_s"] - begun["wait_10_s"], waits=waited > WAITED_S)


def answer(answers: pd.DataFrame, begun: pd.DataFrame) -> list[str]:
    """Return sentences on the error of medians, and on the 80 % intervals that held."""
    if answers.empty:
        return ["No answers are kept yet."]
    if begun.empty:
        return [f"Nothing can be judged yet: none of the jobs that {len(answers):,} answers are about has started."]
    error, plan = (duration(begun[name].median()) for name in ("error", "plan_error"))
    accuracy = f"Over {len(begun):,} answers the told median was off by {error} (median), the plan by {plan}."
    count, held = int(begun["waits"].sum()), covered(begun, 0.8)
    if not count:
        return [accuracy, "No job waited over a minute: whether intervals hold is not known."]
    return [accuracy, f"Of {count:,} answers about jobs that waited over a minute, {share_of(held)} of the 80 % intervals held."]


def covered(begun: pd.DataFrame, share: float) -> float:
    """Return the share of intervals that held; NaN if no job waits over a minute."""
    return float((np.abs(begun.loc[begun["waits"], "place"] - 0.5) <= share / 2.0).mean())


def quality(begun: pd.DataFrame) -> Table:
    """Return errors, losses and intervals: all answers, by wait, and by fit when asked."""
    classes = np.searchsorted(_CLASSES_S, begun["waited_s"])
    groups = {"all": begun, **{name: begun[classes == place] for place, name in enumerate(_CLASSES)}}
    groups |= {"fitted when asked": begun[begun["fits"].astype(bool)], "did not fit": begun[~begun["fits"].astype(bool)]}
    rows = []
    for name, some in groups.items():
        held = np.nan if name in _CLASSES else covered(some, 0.8)
        medians = [duration(some[column].median()) for column in ("error", "plan_error")]
        means = [duration(some[column].mean()) for column in ("loss", "plan_loss", "constant_loss")]
        rows.append([name, f"{len(some):,}", *medians, *means, duration(some["width_s"].median()), share_of(held)])
    headings = ["jobs", "answers", "error", "plan's", "loss", "plan's", "constant's", "80 % width", "held"]
    return Table("", headings, rows if len(begun) else [])


def months(begun: pd.DataFrame) -> Table:
    """Return the shares of intervals that held by month, for jobs that wait over a minute."""
    rest, rows = begun[begun["waits"]], []
    number = (rest["at_s"] - begun["at_s"].min()) // MONTH_S + 1
    for month, some in [("all", rest), *rest.groupby(number)]:
        rows.append([str(month), f"{len(some):,}", *(share_of(covered(some, share)) for share in INTERVALS)])
    headings = ["month of 30 days", "answers", *(f"{share_of(share)} interval" for share in INTERVALS)]
    return Table("Intervals that held, by month: jobs that wait over a minute", headings, rows if len(rest) else [])


def given(logged: pd.DataFrame) -> Table:
    """Return the quality of answers to users' questions, by version."""
    rows = []
    for version, some in logged.groupby("version"):
        good = {name: float("nan") for name in ("median_error_s", "held_80", "told_1h", "came_1h")} | quality_of(some)
        shares = [share_of(good[name]) for name in ("held_80", "told_1h", "came_1h")]
        rows.append([str(version), f"{len(some):,}", f"{good['answers']:,}", duration(good["median_error_s"]), *shares])
    headings = ["version", "answers", "judged", "error", "80 % held", "within 1 h told", "came true"]
    return Table("Answers of queuecast when and of POST /start", headings, rows, left=["version"])


def share_of(value: float) -> str:
    """Return a share in per cent, or a dash for NaN."""
    return "–" if np.isnan(value) else f"{100 * value:.0f} %"


def reliability(begun: pd.DataFrame, generated: bool) -> Figure:
    """Draw shares of waits at most each quantile, and chances to start within 1 h."""
    rest, table = begun.loc[begun["waits"], "place"], bins(begun)
    every = [(begun["waited_s"] <= begun[name]).mean() for name in QUANTILES]
    with figure(7.2, 3.7, generated) as drawing:
        left, right = drawing.subplots(1, 2)
        left.plot(LEVELS, every, "s--", color=MUTED, markersize=4, label="all waits")
        left.plot(LEVELS, [(rest <= level).mean() for level in LEVELS], "o-", color=BLUE, markersize=4, label="over a minute")
        left.set(title="quantiles of the wait", xlabel="level", ylabel="share of waits at most as long")
        left.legend(loc="upper left", fontsize=8)
        right.scatter(table["told"], table["came"], 12 + 130 * table["answers"] / len(begun), color=BLUE, alpha=0.8)
        right.set(title="chance to start within 1 h", xlabel="told", ylabel="came true")
        for panel in (left, right):
            panel.plot([0, 1], [0, 1], color=INK, linewidth=0.9)
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            panel.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
    return drawing


def bins(begun: pd.DataFrame) -> pd.DataFrame:
    """Return how often chances to start within 1 h came true.

    There is one row per bin with answers: ``answers told came``.
    """
    table = pd.DataFrame({"told": begun["chance_1h"].astype(float), "came": begun["waited_s"] <= 3_600})
    place = np.minimum((table["told"] * BINS).astype(np.int64), BINS - 1)
    return table.groupby(place).agg(answers=("told", "size"), told=("told", "mean"), came=("came", "mean"))
