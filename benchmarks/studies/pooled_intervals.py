"""Measure how often intervals of changes pooled over traces cover, on simulated traces of known effects.

``python -m benchmarks.studies.pooled_intervals`` prints a row a cell and method; ``--write`` makes data/pooled-intervals.csv, of which the
card docs/studies/intervals.md tells. A trace's true change is drawn around the one to be covered with standard deviation ``tau`` (of
the logarithm), normal or skewed (an exponential); each window has a load, lognormal, that both policies share, an effect of its own around the trace's,
and 4 replays that differ. Pooled are the ratios of means over windows and replays, as the product has them. ``tau`` is a multiple of the median
standard error of a trace; the variances within traces are equal, or spread by 4 or 25 between the least and the largest. Beside the
product's equal weights: weights by variances that are estimated from the windows, with the between-trace variance of Paule & Mandel
(Journal of Research of the National Bureau of Standards 87(5), 1982) and the interval of Hartung & Knapp.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from benchmarks.common.card import parser, write_rows
from benchmarks.common.pages import STUDIES
from features.statistics import CONFIDENCE, Ratio, interval_of_mean, replicate_changes

CHANGE = 0.8
"""The ratio to be covered."""
REPLAYS, LOAD, CHAOS, EFFECT = 4, 0.7, 0.1, 0.3
"""Replays of a window, and standard deviations of logarithms: of windows' loads, of replays, of windows' effects in the median trace."""
TRACES, WINDOWS, TAUS, SPREADS, SHAPES = (3, 5, 10), (8, 30), (0.0, 0.5, 3.0), (1, 4, 25), ("normal", "skewed")
EQUAL, WEIGHTED = "equal weights, as the product", "weights by estimated variances (Paule-Mandel, Hartung-Knapp)"


def trace(rng: np.random.Generator, windows: int, logarithm: float, effect: float) -> tuple[Ratio, Ratio]:
    """Draw the windows of a policy and its baseline, whose ratio of expectations is exp(``logarithm``)."""
    load = rng.lognormal(0.0, LOAD, windows)
    effects = np.exp(logarithm + rng.normal(-(effect**2) / 2.0, effect, windows))
    mine, base = (load * factor * rng.lognormal(-(CHAOS**2) / 2.0, CHAOS, (REPLAYS, windows)) for factor in (effects, 1.0))
    return Ratio(mine, np.ones_like(mine)), Ratio(base, np.ones_like(base))


def variance(mine: Ratio, base: Ratio) -> float:
    """Return the variance of the logarithm of a trace's ratio: the jackknife of windows, and that of replays."""
    sums = [part.sum(axis=0) for part in (*mine, *base)]
    own, own_of, other, other_of = (each.sum() - each for each in sums)
    without, windows = np.log(own / own_of / other * other_of), sums[0].size
    replays = np.log1p(replicate_changes(mine, base))
    return float((windows - 1.0) ** 2 / windows * without.var(ddof=1) + replays.var(ddof=1) / len(replays))


def paule_mandel(values: np.ndarray, variances: np.ndarray) -> float:
    """Return the variance between traces at which the weighted squares come to their expectation."""
    low, high = 0.0, 8.0 * len(values) * float(values.var(ddof=1))
    if _squares(values, variances, low) <= len(values) - 1.0:
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _squares(values, variances, middle) > len(values) - 1.0 else (low, middle)
    return high


def _squares(values: np.ndarray, variances: np.ndarray, between: float) -> float:
    weights = 1.0 / (variances + between)
    return float((weights * (values - np.average(values, weights=weights)) ** 2).sum())


def weighted(ratios: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """Return the ends of the interval of Hartung & Knapp, as changes."""
    from scipy.special import stdtrit

    values, freedom = np.log(ratios), len(ratios) - 1.0
    between = paule_mandel(values, variances)
    weights = 1.0 / (variances + between)
    error = (_squares(values, variances, between) / freedom / weights.sum()) ** 0.5
    centre, reach = np.average(values, weights=weights), stdtrit(freedom, (1.0 + CONFIDENCE) / 2.0) * error
    return float(np.expm1(centre - reach)), float(np.expm1(centre + reach))


def covered(
    cell: tuple[int, int, float, int, str], trials: int, rng: np.random.Generator, also_weighted: bool = True
) -> pd.DataFrame:
    """Return by method in what share of trials its interval covers, and its median width in logarithms."""
    traces, windows, tau, spread, shape = cell
    effects = EFFECT * np.geomspace(spread**-0.5, spread**0.5, traces) ** 0.5
    own = (EFFECT**2 / windows * np.exp(LOAD**2) + 2.0 * CHAOS**2 / REPLAYS / windows) ** 0.5
    ends: dict[str, list[tuple[float, float]]] = {EQUAL: [], WEIGHTED: []} if also_weighted else {EQUAL: []}
    for _ in range(trials):
        away = rng.normal(size=traces) if shape == "normal" else rng.exponential(size=traces) - 1.0
        pairs = [trace(rng, windows, np.log(CHANGE) + tau * own * a, b) for a, b in zip(away, effects, strict=True)]
        ratios = np.array([mine.value() / base.value() for mine, base in pairs])
        low, high, *_ = interval_of_mean(ratios)
        assert low is not None
        assert high is not None
        ends[EQUAL].append((low, high))
        if also_weighted:
            ends[WEIGHTED].append(weighted(ratios, np.array([variance(*pair) for pair in pairs])))
    rows = []
    for method, each in ends.items():
        low_high = np.array(each)
        hit = (low_high[:, 0] <= CHANGE - 1.0) & (low_high[:, 1] >= CHANGE - 1.0)
        width = float(np.median(np.diff(np.log1p(low_high), axis=1)))
        rows.append(
            dict(zip(("traces", "windows", "tau", "spread", "shape"), cell, strict=True))
            | {"method": method, "coverage": hit.mean(), "width": width}
        )
    return pd.DataFrame(rows)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--trials", type=int, default=3000, help="trials a cell")
    options = arguments.parse_args()
    cells = [cell for cell in product(TRACES, WINDOWS, TAUS, SPREADS, SHAPES) if cell[2] > 0 or cell[4] == SHAPES[0]]
    rows = pd.concat([covered(cell, options.trials, np.random.default_rng(seed)) for seed, cell in enumerate(cells)])
    if options.write:
        write_rows(STUDIES / "data" / "pooled-intervals.csv", rows.round(4))
    print(rows.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
