"""Learn a queue order that beats SAF, with one look at the testing weeks (Legrand, Trystram & Zrigui 2018).

Their report ends with SAF unbeaten by anything learned. Here families of scores (:mod:`benchmarks.papers.legrand.learned_families`) are
learned on training weeks, chosen by cross-validation there, and looked at once on testing weeks: KTH-SP2 learns on weeks 1 to 22 and is
tested on 23 to 45, SDSC-SP2 on 28 to 64 and 65 to 100. All backfill shortest first with one reservation; the threshold of starvation is
200,000 s. What counts is the sum over weeks of the mean bounded slowdown, relative to SAF's (``SAF-EASY-SPF``, by requests).

A family is a formula; its parameters start at SAF, or with predictions at Smith's rule, request n / weight. CMA-ES moves them by the sum
over training weeks, each at several offsets of days and shaken by up to 600 s, with a penalty on the distance from the start; the mean of
its last generation is taken. Four blocks of weeks are left out in turn, and the family with the least sum there is chosen: one without
predictions, one with. With predictions ``r`` is an index in seconds, sqrt(request / weight), the weight the expected 1 / max(runtime,
60 s) as served (:mod:`benchmarks.papers.legrand.learned_weights`). It orders the queue and the candidates behind; jobs are planned by their requests,
``EASY(plans=requested)``. Before this protocol about 17,000 policies were tried on training weeks, to find which features are worth a
family; none saw a testing week. "Best so far" replays all learned policies, SAF and SPF on the past testing weeks and takes each week
the best until then. LANL-CM5 took no part in any choice; its runtimes are cut to requests that a third of its jobs outran.

Every step is kept and used again by the same code. Nothing before :meth:`Study.look` reads a testing week.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import kept
from benchmarks.papers.legrand.learned_families import FAMILIES, STARVATION_S, TAUS_S, Site, Training, cross_validate, learn
from benchmarks.papers.legrand.learned_weights import expected_weights, index_s
from features.clock import WEEK_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.shaking import moves, shaken
from pipelines.ingest.swf import read_swf
from sim.campaigns.sweep import PreparedSweep
from sim.campaigns.windows import split_windows
from sim.policy import Policy
from sim.schedulers.scores import score

NAME = "papers.legrand.learned"


@dataclass(frozen=True)
class Split:
    """A trace, the weeks to learn on and the weeks to test on, counted from the first submission."""

    title: str
    file: str
    procs: int | None
    training: range
    testing: range


SPLITS = {
    "kth-sp2": Split("KTH-SP2", "KTH-SP2-1996-2.swf.gz", None, range(1, 23), range(23, 46)),
    "sdsc-sp2": Split("SDSC-SP2", "SDSC-SP2-filtered.swf.gz", 128, range(28, 65), range(65, 101)),
}
UNTOUCHED = Split("LANL-CM5", "LANL-CM5-1994-4.1-cln.swf.gz", None, range(0), range(52, 103))
"""Nothing was learned or chosen on it; its second year, as its weights need a past to learn from."""
OFFSETS, BUDGET, FINAL_OFFSETS, FINAL_BUDGET = (0, 2, 4, 6), 60, tuple(range(7)), 120
REPLICATES = 12
WITHOUT = tuple(name for name, family in FAMILIES.items() if not family.predicted)
WITH = tuple(name for name, family in FAMILIES.items() if family.predicted)
ROBUST = ("each week", "median", "worst quarter")
LOOK_SEED, FRESH_SEED, FRESH_SHAKE_S = 100, 900, 600
"""Shakes of the look and of the fresh check, which moves submissions ten times as far."""
_LOG10 = "log(max(submit,1))/log(10)"
COMPARED = {
    "SAF": "requested*n",
    "FCFS": "submit",
    "SPF": "requested",
    "WFP3": "-(wait/requested)**3*n",
    "F1": f"log(requested)/log(10)*n+870*{_LOG10}",
    "F2": f"sqrt(requested)*n+25600*{_LOG10}",
    "F3": f"requested*n+6.86e6*{_LOG10}",
    "F4": f"requested*sqrt(n)+5.3e5*{_LOG10}",
    "r²n (Smith, untrained)": "requested*requested*n",
}
"""Policies that nothing was learned for, under the same treatment."""
UNTRAINED = {"SAF, r the index": "r*n", "n request / weight (Smith, untrained)": FAMILIES["weight"].text}
"""The same with predictions: neither has a number that was fitted."""
METRICS = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s")


def opened(shared: Path, split: Split) -> CleanTrace:
    return clean(read_swf(shared / "traces" / split.file), split.procs)


def before(trace: CleanTrace, weeks: range) -> pd.DataFrame:
    """Return the jobs submitted before the end of ``weeks``: what learning may read."""
    submit = trace.jobs["submit_s"].to_numpy(np.int64)
    return trace.jobs[submit < submit[0] + weeks.stop * WEEK_S].reset_index(drop=True)


class Study:
    """The steps of the protocol, each kept in ``folder``."""

    def __init__(self, shared: Path, folder: Path) -> None:
        self.shared, self.folder = shared, folder
        self.began = time.perf_counter()
        self._traces: dict[str, CleanTrace] = {}

    def say(self, words: str) -> None:
        print(f"[{time.perf_counter() - self.began:5.0f} s] {words}", file=sys.stderr, flush=True)

    def step(self, words: str, settings: tuple[object, ...], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        self.say(words)
        return kept(self.folder, NAME, (words, *settings), make)

    def trace(self, name: str) -> CleanTrace:
        if name not in self._traces:
            self._traces[name] = opened(self.shared, UNTOUCHED if name == "untouched" else SPLITS[name])
        return self._traces[name]

    def weights(self, name: str, jobs: pd.DataFrame, since: int, seed: int = 0) -> np.ndarray:
        """Return each job's expected weight as served, float64 [jobs]."""
        trace = self.trace(name)

        def make() -> pd.DataFrame:
            weights = expected_weights(jobs, trace.procs, clock=trace.clock, since_s=since * WEEK_S, seed=seed)
            return pd.DataFrame({"weight": weights})

        table = self.step(f"weights of {name}, {len(jobs):,} jobs, seed {seed}", (since,), make)
        return table["weight"].to_numpy(np.float64)

    def site(self, name: str) -> Site:
        """Return a trace cut off at the end of its training weeks."""
        trace, split = self.trace(name), SPLITS[name]
        jobs = before(trace, split.training)
        weight = self.weights(name, jobs, split.training.start)
        index = index_s(jobs["requested_s"].to_numpy(np.float64), weight)
        return Site(name, jobs, trace.procs, trace.clock, split.training, index)

    def validated(self, family: str, name: str, objective: str = "sum") -> pd.DataFrame:
        """Return the cross-validation of a family on a trace, with the trials it took."""

        def make() -> pd.DataFrame:
            training = Training([self.site(name)], FAMILIES[family], offsets=OFFSETS)
            rows = cross_validate(training, [self.site(name)], objective=objective, budget=BUDGET)
            return rows.assign(trials=training.trials, simulations=training.simulations)

        return self.step(f"cross-validate {family} on {name}, objective {objective}", (OFFSETS, BUDGET), make)

    def learned(self, family: str, names: tuple[str, ...]) -> pd.DataFrame:
        """Learn on all training weeks of some traces: one row ``family traces score scheduler value trials simulations``."""

        def make() -> pd.DataFrame:
            training = Training([self.site(name) for name in names], FAMILIES[family], offsets=FINAL_OFFSETS)
            learned = learn(training, budget=FINAL_BUDGET)
            row = {"family": family, "traces": " ".join(names), "score": str(learned.score), "value": learned.value}
            row |= {
                "scheduler": FAMILIES[family].scheduler(learned.score),
                "trials": training.trials,
                "simulations": training.simulations,
            }
            return pd.DataFrame([row])

        return self.step(f"learn {family} on {' and '.join(names)}", (FINAL_OFFSETS, FINAL_BUDGET), make)

    def best(self, families: tuple[str, ...], name: str) -> str:
        """Return the family with the least sum out of fold."""
        ratios = {}
        for family in families:
            rows = self.validated(family, name)
            ratios[family] = rows["slowdown"].sum() / rows["saf"].sum()
        return min(ratios, key=lambda each: ratios[each])

    def policies(self, name: str) -> dict[str, tuple[str, bool]]:
        """Return all policies looked at on a trace: text of the score, and whether ``r`` is the index."""
        scores = {each: (text, False) for each, text in COMPARED.items()} | {each: (text, True) for each, text in UNTRAINED.items()}
        for own in SPLITS if name == "untouched" else (name,):
            for families, words in ((WITHOUT, "without predictions"), (WITH, "with predictions")):
                family = self.best(families, own)
                learned = self.learned(family, (own,)).iloc[0]
                of = f" of {SPLITS[own].title}" if name == "untouched" else ""
                scores[f"learned{of} {words}"] = (str(learned["score"]), FAMILIES[family].predicted)
        both = self.learned("weight", tuple(SPLITS)).iloc[0]
        return scores | {"learned of both with predictions": (str(both["score"]), True)}

    def look(
        self, name: str, seed: int, shake_s: int, starvation_s: tuple[int | None, ...], replicates: int = REPLICATES
    ) -> pd.DataFrame:
        """Measure all policies on the testing weeks: one row a policy, threshold, week, replicate and tau."""
        policies = self.policies(name)
        settings = (seed, shake_s, starvation_s, replicates, sorted(policies.items()))
        return self.step(
            f"look at {name}, shaken by {shake_s} s",
            settings,
            lambda: self.weekly(name, policies, seed, shake_s, starvation_s, replicates),
        ).astype({"starvation_s": "Int64"})

    def weekly(
        self,
        name: str,
        policies: dict[str, tuple[str, bool]],
        seed: int,
        shake_s: int,
        starvation_s: tuple[int | None, ...],
        replicates: int,
        trees: int = 0,
    ) -> pd.DataFrame:
        """Measure policies on the testing weeks, with weights by trees of the seed ``trees``: rows of :meth:`look`."""
        trace, split = self.trace(name), UNTOUCHED if name == "untouched" else SPLITS[name]
        jobs = before(trace, split.testing)
        index = index_s(jobs["requested_s"].to_numpy(np.float64), self.weights(name, jobs, split.testing.start, trees))
        rows = []
        for window in split_windows(jobs, "weeks").windows:
            for replicate in range(replicates) if window.number in split.testing else ():
                by_s = moves(len(window.jobs), shake_s if replicate else 0, seed + 1000 * window.number + replicate)
                moved, order = shaken(window.jobs, by_s)
                metrics = measured(moved, index[window.rows[order]], trace, policies, starvation_s)
                rows += [row | {"window": window.number, "seed": replicate} for row in metrics]
        return pd.DataFrame(rows).assign(trace=split.title, semantics="per-second", correction="requested")


def measured(
    jobs: pd.DataFrame,
    index: np.ndarray,
    trace: CleanTrace,
    policies: dict[str, tuple[str, bool]],
    starvation_s: tuple[int | None, ...],
) -> list[dict[str, object]]:
    """Measure policies on one window, at every threshold and tau."""
    rows: list[dict[str, object]] = []
    for policy, (text, predicted) in policies.items():
        chosen = score(text)
        scheduler = f"SCORE({chosen})-{'EASY(plans=requested)' if predicted else 'EASY'}-SPF"
        for threshold in starvation_s:
            asked = Policy(scheduler, index if predicted else "requested", starvation_s=threshold)
            sweep = PreparedSweep(jobs, procs=trace.procs, policy=asked, clock=trace.clock, taus_s=TAUS_S)
            metrics = sweep.measure([chosen.values]).iloc[0]
            shared = {name: float(metrics[name]) for name in ("mean_wait_s", "awf_s", "p2sf_s", "max_wait_s")}
            for tau_s in TAUS_S:
                slowdown = float(metrics[f"mean_bounded_slowdown_{tau_s:g}"])
                row = {"scheduler": policy, "predictor": "index" if predicted else "requested", "starvation_s": threshold}
                rows.append(row | {"tau_s": tau_s, "mean_bounded_slowdown": slowdown, "jobs": len(jobs)} | shared)
    return rows


THRESHOLDS = (STARVATION_S, None, 72_000)
