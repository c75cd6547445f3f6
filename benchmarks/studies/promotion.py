"""Count wrong promotions in a year of equal challengers, and nights a better one needs.

``python -m benchmarks.studies.promotion`` prints the card, ``--write`` makes docs/studies/promotion.md, its picture and its data. The rule
is that of :mod:`models.registry.promotion`, without its vetoes. A simulated night has 15.6 users with 4 jobs each on average, some with a
hundred; a job is only its difference of accuracy, and how large these are and how jobs spread over users and nights is as on KTH-SP2
(:data:`LEARNERS`): *another learner* errs elsewhere, *the same learner, trained anew* mostly says the same. Either sign is as likely, and half
of the differences are shared by all candidates. The table of real nights is of sixty nights of KTH-SP2 from day 250 on, two candidates, and needs
the traces under ``--shared``; *trained once* is a champion as it would be served, with the model of the first night.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from scipy.special import stdtrit

from benchmarks.common.card import Card, parser, study
from benchmarks.common.logs import load
from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import cells, kept_table, markdown
from features.clock import DAY_S
from models.registry.evidence import STAKES, log_evidence
from models.registry.promotion import (
    CONFIDENCE,
    FEWEST_CLUSTERS,
    FEWEST_JOBS,
    JUDGED_DAYS,
    LEVEL,
    SETTLING_DAYS,
    TIE,
    served_evidence,
)
from models.runtime.evaluation import accuracy
from pipelines.report.style import INK, MUTED, encode, figure

NIGHTS = 365
YEARS, YEARS_OF_BETTER, AT_ONCE = 1000, 400, 50
BETTER = (0.01, 0.03, 0.05)
CANDIDATES = (2, 3)
REAL_FIRST, REAL_NIGHTS = 250, 60
"""Nights of KTH-SP2, counted from its first submission."""
EQUAL, REAL = "equal challengers", "real nights"
"""Sections of the data."""
_BLUE, _VERMILION, _GREEN = "#0072b2", "#d55e00", "#009e73"


USERS, MEDIAN_MORE, SPREAD_MORE, MOST = 15.6, 1.0, 1.6, 400
"""Users a night of KTH-SP2 whose jobs end; of jobs beyond the first of each the median and the spread of the logarithm, and where they are cut."""


@dataclass(frozen=True)
class Learner:
    """How a challenger and a champion differ that are equally good.

    By the mean difference of accuracy over a user's jobs of a night.

    With the probability ``same`` it is 0; else its magnitude is lognormal with this ``median`` and ``spread`` (standard deviation of the logarithm), cut
    at 1, and either sign is as likely.
    """

    same: float
    median: float
    spread: float


LEARNERS = {
    "another learner": Learner(0.0, 0.058, 1.48),
    "the same learner, trained anew": Learner(0.55, 0.027, 1.43),
}
"""Fitted by quantiles to 80 nights of KTH-SP2 from day 250 on, against the ``quantile`` of the first.

Of every night: ``quantile``, and boosted trees over users' histories, a candidate then.
"""


@dataclass(frozen=True)
class Years:
    """Simulated years of paired differences, sums over the users of a night, float64.

    ``growth`` [candidates, years, nights, stakes] is of users' mean differences less the tie. Of candidates, too, are ``total``, the sum over jobs,
    ``square``, of the squares of users' totals, and ``cross``, of users' totals times their jobs. ``jobs``, ``jobs_square`` and ``users`` are
    [years, nights].
    """

    growth: np.ndarray
    total: np.ndarray
    square: np.ndarray
    cross: np.ndarray
    jobs: np.ndarray
    jobs_square: np.ndarray
    users: np.ndarray


def simulated(
    rng: np.random.Generator, learner: Learner, years: int, better: float = 0.0, candidates: int = 2, nights: int = NIGHTS
) -> Years:
    """Draw ``years`` of ``candidates`` against a champion, all equally good but the first.

    The first is ``better`` by so much accuracy.

    Where the champion errs, others may do better together: half of the differences are the same for all candidates.
    """
    count = rng.poisson(USERS, years * nights)
    night = np.repeat(np.arange(years * nights), count)
    more = MEDIAN_MORE * np.exp(SPREAD_MORE * rng.standard_normal(len(night)))
    jobs = np.minimum(1.0 + np.floor(more), MOST)

    def differences() -> np.ndarray:
        size = np.minimum(learner.median * np.exp(learner.spread * rng.standard_normal(len(night))), 1.0)
        return np.where(rng.random(len(night)) < learner.same, 0.0, rng.choice([-1.0, 1.0], len(night)) * size)

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(night, values, years * nights).reshape(years, nights)

    common = differences()
    outcomes = []
    for number in range(candidates):
        equal = np.where(rng.random(len(night)) < 0.5, common, differences())
        difference = np.clip(equal + (better if number == 0 else 0.0), -1.0, 1.0)
        growth = np.stack([sums(np.log1p(stake * (difference - TIE))) for stake in STAKES], axis=-1)
        outcomes.append((growth, sums(difference * jobs), sums((difference * jobs) ** 2), sums(difference * jobs**2)))
    by_candidate = [np.stack(each) for each in zip(*outcomes, strict=True)]
    return Years(*by_candidate, sums(jobs), sums(jobs**2), count.reshape(years, nights).astype(np.float64))


def window(values: np.ndarray) -> np.ndarray:
    """Sums over the last ``JUDGED_DAYS`` nights, along the last axis."""
    total = np.cumsum(values, axis=-1)
    total[..., JUDGED_DAYS:] -= total[..., :-JUDGED_DAYS].copy()
    return total


def promoted(sums_of_years: Years) -> np.ndarray:
    """Tell whether the rule would promote some candidate, bool [years, nights].

    What happens after the first promotion says nothing.
    """
    growth = sums_of_years.growth.copy()
    growth[:, :, :SETTLING_DAYS] = 0.0
    evidence = log_evidence(growth[:, :, SETTLING_DAYS:])
    none = np.zeros((*evidence.shape[:2], SETTLING_DAYS))
    enough = np.concatenate([none, evidence], axis=-1) >= np.log(len(growth) / LEVEL)
    jobs = window(sums_of_years.jobs)
    better = window(sums_of_years.total) / np.maximum(jobs, 1.0) > TIE
    return (enough & better & (jobs >= FEWEST_JOBS)).any(axis=0)


def promoted_by_interval(sums_of_years: Years) -> np.ndarray:
    """Tell the same by the rule of before.

    Every night it took a fresh interval of the last days' difference, of the candidate that is best in them.
    """
    total, jobs, users = window(sums_of_years.total), window(sums_of_years.jobs), window(sums_of_years.users)
    best = total.argmax(axis=0)[None]
    total, square, cross = (
        np.take_along_axis(each, best, axis=0)[0] for each in (total, window(sums_of_years.square), window(sums_of_years.cross))
    )
    mean = total / np.maximum(jobs, 1.0)
    variance = (square - 2 * mean * cross + mean**2 * window(sums_of_years.jobs_square)) * users / np.maximum(users - 1, 1)
    level = (1.0 - CONFIDENCE) / len(sums_of_years.growth) / 2
    low = mean + stdtrit(np.maximum(users - 1, 1), level) * np.sqrt(np.maximum(variance, 0.0)) / np.maximum(jobs, 1.0)
    return (low > 0) & (mean > TIE) & (jobs >= FEWEST_JOBS) & (users >= FEWEST_CLUSTERS)


def first(promotions: np.ndarray) -> np.ndarray:
    """Return the first night, from 1, on which each year promotes, float64 [years].

    Infinity for never.
    """
    return np.where(promotions.any(axis=1), promotions.argmax(axis=1) + 1.0, np.inf)


@dataclass(frozen=True)
class Outcome:
    """Nights of the first promotion by the rule and by the interval of before.

    Float64 [years] each, infinity for never.
    """

    rule: np.ndarray
    interval: np.ndarray


def outcome(learner: Learner, years: int, better: float, candidates: int, seed: int) -> Outcome:
    """Simulate ``years``, some at a time."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(0, years, AT_ONCE):
        sums_of_years = simulated(rng, learner, AT_ONCE, better, candidates)
        parts.append((first(promoted(sums_of_years)), first(promoted_by_interval(sums_of_years))))
    return Outcome(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def equal_years(seed: int = 0) -> dict[tuple[str, int], Outcome]:
    """Years of equal challengers, by learner and number of candidates."""
    return {(name, count): outcome(each, YEARS, 0.0, count, seed) for name, each in LEARNERS.items() for count in CANDIDATES}


def better_years(seed: int = 1) -> dict[tuple[str, float], Outcome]:
    """Years with one better challenger of three, by learner and how much better."""
    return {(name, better): outcome(each, YEARS_OF_BETTER, better, 3, seed) for name, each in LEARNERS.items() for better in BETTER}


def equal_table(outcomes: Mapping[tuple[str, int], Outcome]) -> str:
    """Shares of years with a promotion, in Markdown."""
    rows = [
        [name, str(count), *(f"{np.isfinite(nights).mean():.1%}" for nights in (each.rule, each.interval))]
        for (name, count), each in outcomes.items()
    ]
    years = f"{YEARS:,} years of {NIGHTS} nights each"
    return markdown([years, "candidates", "promote one by this rule", "by a fresh interval each night"], rows)


def better_table(outcomes: Mapping[tuple[str, float], Outcome]) -> str:
    """Nights until a better challenger is promoted, in Markdown."""
    rows = []
    for (name, better), each in outcomes.items():
        within = f"{np.isfinite(each.rule).mean():.1%}"
        nights = (_night(each.rule, 0.5), _night(each.rule, 0.9), _night(each.interval, 0.5))
        rows.append([name, f"{100 * better:g}", within, *nights])
    headings = ["the better of three candidates is", "points better", "within a year"]
    return markdown([*headings, "median night", "90 % by night", "median by interval"], rows)


def _night(nights: np.ndarray, share: float) -> str:
    value = float(np.quantile(nights, share, method="higher"))
    return f"{value:.0f}" if np.isfinite(value) else "over a year"


def real_nights(shared: Path) -> pd.DataFrame:
    """Return what KTH-SP2's nights say, a row a pair.

    From jobs answered as served by methods trained each night and by models trained once, on the first.
    """
    from features.jobs.history import model_inputs
    from models.packed.methods import Boosting, Quantile
    from models.registry.accounting import Accounting
    from models.registry.as_served import CHAMPION, predict_served
    from models.registry.candidates import train
    from pipelines.dated.history import user_history

    trace = load("KTH-SP2", shared)
    past = user_history(trace)
    accounting = Accounting(trace.jobs, past.start_s, model_inputs(trace.jobs, past.table), trace.origin_unix_s, trace.timezone)
    submit = trace.jobs["submit_s"].to_numpy(np.int64)
    instants = [int(submit[0]) + DAY_S * (REAL_FIRST + night) for night in range(REAL_NIGHTS)]
    begin, end = instants[0], instants[0] + DAY_S * REAL_NIGHTS
    rows = np.flatnonzero((submit > begin) & (accounting.end_s <= end))
    scores = {}
    for name in (Boosting.name, Quantile.name):
        once = train(name, accounting, begin, 0)
        others = ("last2", Boosting.name, Quantile.name) if name == Quantile.name else ()

        def answered(at_s: int, asked: np.ndarray, once=once):
            return [(np.ones(len(asked), bool), "once", once)]

        served = predict_served(accounting, rows, instants, names=others, champion=answered)
        runtime = served["runtime_s"].to_numpy(np.float64)
        scores |= {(name, "trained once"): accuracy(served[CHAMPION].to_numpy(), runtime)}
        scores |= {(other, "every night"): accuracy(served[other].to_numpy(), runtime) for other in others}
    user, ended = pd.factorize(served["user"])[0], served["end_s"].to_numpy(np.int64)
    champions = [(Quantile.name, "trained once"), (Boosting.name, "trained once"), ("last2", "every night")]
    pairs = [(one, (other, "every night")) for one in champions for other in (Boosting.name, Quantile.name)]
    return pd.DataFrame([_real_row(pair, scores[pair[1]] - scores[pair[0]], user, ended, begin) for pair in pairs])


def _real_row(
    pair: tuple[str, str], difference: np.ndarray, user: np.ndarray, end_s: np.ndarray, begin_s: int
) -> dict[str, object]:
    table = pd.DataFrame({"difference": difference, "user": user, "day": (end_s - begin_s - 1) // DAY_S})
    units = table.groupby(["day", "user"])["difference"].mean()
    nights = units.groupby(level="day").agg(["mean", "std", "size"])
    evidence = [
        served_evidence(difference, user, end_s, begin_s, begin_s + DAY_S * each, 2, begin_s) for each in range(REAL_NIGHTS + 1)
    ]
    values = np.array([each.value for each in evidence])
    enough = values >= evidence[0].needed
    return {
        "champion": ", ".join(pair[0]),
        "challenger": ", ".join(pair[1]),
        "jobs": len(difference),
        "users": float(nights["size"].mean()),
        "difference": float(difference.mean()),
        "spread": float(units.std()),
        "ratio": float(nights["mean"].var() / (nights["std"] ** 2 / nights["size"]).mean()),
        "first": int(enough.argmax()) if enough.any() else 0,
        "evidence": values,
    }


def real_table(real: pd.DataFrame) -> str:
    """Real nights in Markdown."""
    rows = []
    for row in real.to_dict("records"):
        cells = (f"{100 * row['difference']:+.1f}".replace("-", "−"), f"{row['spread']:.3f}", f"{row['ratio']:.2f}")
        cells = (*cells, f"{row['evidence'][-1]:.3g}", f"{row['first']}" if row["first"] else "–")
        rows.append([row["champion"], row["challenger"], *cells])
    headings = ["champion", "challenger", "points better", "spread of a user's night", "variance of nights"]
    return markdown([*headings, "evidence at the end", "suffices on night"], rows, keys=2)


def drawn(equal: Mapping[tuple[str, int], Outcome], better: Mapping[tuple[str, float], Outcome]) -> bytes:
    """Left, years that have promoted an equal challenger by each night; right, better ones."""
    name = next(iter(LEARNERS))
    with figure(10.5, 4.2, True) as drawing:
        left, right = drawing.subplots(1, 2, sharey=True)
        for count, style in zip(CANDIDATES, ("--", "-"), strict=True):
            outcomes = equal[name, count]
            _share(left, outcomes.interval, f"a fresh interval each night, {count} candidates", color=_VERMILION, linestyle=style)
            _share(left, outcomes.rule, f"this rule, {count} candidates", color=_BLUE, linestyle=style)
        left.axhline(LEVEL, color=INK, linewidth=0.9, linestyle=":", label=f"{LEVEL:.0%}")
        left.set(title="equal challengers: years that have promoted one", xlabel="night")
        for points, colour in zip(BETTER, (MUTED, _BLUE, _GREEN), strict=True):
            outcomes = better[name, points]
            _share(right, outcomes.rule, f"{100 * points:g} points better", color=colour)
            _share(right, outcomes.interval, f"{100 * points:g}, by a fresh interval", color=colour, linestyle=":")
        right.set(title="better challengers: years that have promoted one", xlabel="night")
        for panel in (left, right):
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
            panel.legend(fontsize=8)
        return encode(drawing, "png")


def _share(panel: Axes, nights: np.ndarray, label: str, **style: str) -> None:
    panel.plot(
        np.arange(NIGHTS + 1), [(nights <= night).mean() for night in range(NIGHTS + 1)], label=label, linewidth=1.6, **style
    )


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a learner and how much better it is; ``rows`` are cells of all tables."""
    equal, better, real = (kept_table(rows, section) for section in (EQUAL, "better challengers", REAL))
    rule, interval = (
        equal[name].str.rstrip("%").astype(float) for name in ("promote one by this rule", "by a fresh interval each night")
    )
    variance = real["variance of nights"].astype(float)
    return Card(
        question="When is a challenger promoted, and how often wrongly?",
        answer="With evidence that may be read every night (wealth of a gambler staking on each user's mean difference of a day), "
        f"{rule.min():g} to {rule.max():g} % of "
        f"{YEARS:,} generated years promote a challenger that is no better; with a fresh 95 % interval each night, {interval.min():g} to "
        f"{interval.max():g} % do. The "
        "price is waiting: a challenger 3 points more accurate waits a median of "
        f"{' or '.join(better.loc[better['points better'].astype(int) == 3, 'median night'])} nights instead of "
        f"{' or '.join(better.loc[better['points better'].astype(int) == 3, 'median by interval'])}.",
        picture="promotion.png",
        picture_caption="Generated years that have promoted a challenger by each night: left equal challengers, right better ones",
        table=better[better["points better"] != "5"].rename(
            columns={"the better of three candidates is": "the better of three is"}
        ),
        table_caption=f"Nights until a better challenger is promoted, {YEARS_OF_BETTER} generated years per row; differences are as large as on "
        "80 nights of KTH-SP2:",
        fails="A challenger one point better may wait over a year. The study assumes, without a check, that one night's luck says nothing of the next: "
        "shocks that last for days, or "
        "advantages in long spells, would promote equals more often. On sixty real nights of KTH-SP2 the variance of a night's mean is "
        f"{variance.min():.1f} to {variance.max():.1f} times that of independent users. The stakes were chosen on such simulated years, so "
        "waits are a little short. "
        "Vetoes (under-prediction, quantiles, schedules) are left out; they can only keep a champion.",
        data=["promotion.csv"],
        made_by=made_by,
    )


def main() -> None:
    options = parser(__doc__).parse_args()

    def compute() -> pd.DataFrame:
        equal, better = equal_years(), better_years()
        if options.write:
            (STUDIES / "promotion.png").write_bytes(drawn(equal, better))
        parts = {
            EQUAL: equal_table(equal),
            "better challengers": better_table(better),
            REAL: real_table(real_nights(options.shared)),
        }
        return pd.concat([cells(text, section) for section, text in parts.items()])

    study(options, "studies.promotion", "promotion.csv", compute, card)


if __name__ == "__main__":
    main()
