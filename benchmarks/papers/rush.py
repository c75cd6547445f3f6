"""Measure what waiting for a quiet machine is worth: RUSH (Nichols et al.), simulated.

``python -m benchmarks.papers.rush`` prints the tables; ``--write`` puts them into docs/studies/rush.md and rush-assumptions.md and makes
their pictures. What was simulated is kept under ``--keep`` and used again only by the same code: an interrupted run goes on where it
was. Cutoff and patience of the model are chosen on trials that nothing else is measured on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from benchmarks.common.pages import HOUSE, STUDIES, made_by
from benchmarks.papers.rush_trials import Bench, Setting
from features.errors import InputError
from pipelines.report.cluster_tables import looked_up
from pipelines.workflows.cluster_experiments import Conducted
from sim.cluster.comparison import ALL, asking_rate, compared, described, stratified
from sim.cluster.workloads import EXPERIMENTS, Experiment

CLUSTER, STORMY = "congested", "stormy"
FIRST, INFORMED, BEST_KNOWN = "@first-fit", "@informed", "@oracle"
"""Placements other than best fit, the default."""
EASY = "EASY"
EVERY = 10
"""Seconds after which a job with patience is asked about again at the earliest."""
BOUND_PATIENCE = 1200
"""Patience of oracle and nowcast, in seconds."""
PATIENCES = (300, 600, 900, 1200, 1800, 2400, 3600)
CHOICES = (600, 900, 1200, 1800)
"""Patiences to choose from."""
CUTOFFS = (0.1, 0.15, 0.2, 0.3)
"""The ladder of cutoffs: probabilities of variation from which on a job waits."""
HARM_CUTOFFS = (0.1, 0.2, 0.3)
"""Those of a model that also counts what a start does to running jobs."""
EVERIES = (0, 10, 30, 60, 120)
LIMITS = (1.5, 1.2, 1.0, 0.5)
"""z beyond which the oracle lets a job wait."""
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
LASTING = (0.3, 1.0, 3.0, 10.0)
"""How many times as long disturbances last, and pause."""
PRICE = 0.01
"""By how much makespan and mean wait may be longer for a cutoff and a patience to be chosen."""
PUBLISHED_TRIALS = 5


class Choice(NamedTuple):
    """Cutoff and patience, in seconds, of the model."""

    cutoff: float
    patience: int


def rush(model: str, *, skips: int = 0, patience: int = 0, every: int = EVERY, harm: bool = False, placement: str = "") -> str:
    """Return the name of a scheduler that asks ``model``: with ``skips`` as the paper has them, or with a patience."""
    options = [f"model={model}"]
    options += [f"skips={skips}"] if skips else []
    options += [f"patience={patience},every={every}"] if patience else []
    options += ["harm=yes"] if harm else []
    return f"EASY+RUSH({','.join(options)}){placement}"


@dataclass(frozen=True)
class Settings:
    """All settings that are compared, by their names on the pages.

    ``chosen`` is the model's, ``harming`` the model's that also counts what a start does to running jobs.
    """

    chosen: Choice
    harming: Choice

    def model(self, **options: object) -> Setting:
        """Return the model with what was chosen for it, but for ``options`` of :func:`rush`."""
        return Setting(rush("model", **{"patience": self.chosen.patience, **options}), self.chosen.cutoff)  # type: ignore[arg-type]

    def harm(self, **options: object) -> Setting:
        """Return the model that also counts what a start does to running jobs."""
        given = {"patience": self.harming.patience, "harm": True, **options}
        return Setting(rush("model", **given), self.harming.cutoff)  # type: ignore[arg-type]

    def shipped(self, **options: object) -> Setting:
        """Return the model of all 282 features, by default with the paper's ten skips."""
        return Setting(rush("shipped", **({"skips": 10} | options)), 0.8)  # type: ignore[arg-type]

    def conducted(self) -> dict[str, Setting]:
        """Return what all experiments are conducted with; the first is the baseline."""
        return {
            "EASY": Setting(EASY),
            "model": self.model(),
            "model, informed": self.model(placement=INFORMED),
            "as published": self.shipped(),
            "nowcast": Setting(rush("nowcast", patience=BOUND_PATIENCE)),
            "oracle": Setting(rush("oracle", patience=BOUND_PATIENCE)),
            "oracle, harm": Setting(rush("oracle", patience=BOUND_PATIENCE, harm=True)),
        }

    def steps(self) -> dict[str, dict[str, Setting]]:
        """Return the two ladders: from EASY with first fit, each rung with all before it."""
        return {
            "model": {
                "EASY, first fit": Setting(EASY + FIRST),
                "+ model of 282 features, ten skips": self.shipped(placement=FIRST),
                "+ best fit": self.shipped(),
                "+ model of delays": self.model(patience=0, skips=10),
                "+ patience": self.model(),
                "+ harm": self.harm(),
            },
            "oracle": {
                "EASY, first fit": Setting(EASY + FIRST),
                "+ oracle, ten skips": Setting(rush("oracle", skips=10, placement=FIRST)),
                "+ best fit": Setting(rush("oracle", skips=10)),
                "+ patience": Setting(rush("oracle", patience=BOUND_PATIENCE)),
                "+ harm": Setting(rush("oracle", patience=BOUND_PATIENCE, harm=True)),
                "+ placement that knows": Setting(rush("oracle", patience=BOUND_PATIENCE, harm=True, placement=BEST_KNOWN)),
            },
        }

    def apart(self) -> dict[str, Setting]:
        """Return every part alone, and the oracle with first fit and more skips."""
        named = {"EASY, first fit": Setting(EASY + FIRST)}
        named |= {"model of 282 features, ten skips, first fit": self.shipped(placement=FIRST)}
        named |= {
            f"oracle, {skips} skips, first fit": Setting(rush("oracle", skips=skips, placement=FIRST)) for skips in (10, 20, 40, 80)
        }
        named |= {
            "EASY, best fit": Setting(EASY),
            "EASY, informed": Setting(EASY + INFORMED),
            "EASY, placement that knows": Setting(EASY + BEST_KNOWN),
            "model of 282 features, ten skips": self.shipped(),
            "model of 282 features, patience": self.shipped(skips=0, patience=self.chosen.patience),
            "model, ten skips": self.model(patience=0, skips=10),
            "model, patience": self.model(),
            "model, patience, informed": self.model(placement=INFORMED),
            "model, harm, patience": self.harm(),
            "nowcast, patience": Setting(rush("nowcast", patience=BOUND_PATIENCE)),
            "nowcast, harm, patience": Setting(rush("nowcast", patience=BOUND_PATIENCE, harm=True)),
            "oracle, ten skips": Setting(rush("oracle", skips=10)),
            "oracle, harm, ten skips": Setting(rush("oracle", skips=10, harm=True)),
            "oracle, patience": Setting(rush("oracle", patience=BOUND_PATIENCE)),
            "oracle, harm, patience": Setting(rush("oracle", patience=BOUND_PATIENCE, harm=True)),
            "oracle, harm, twice the patience": Setting(rush("oracle", patience=2 * BOUND_PATIENCE, harm=True)),
        }
        return named

    def bounds(self) -> dict[str, Setting]:
        """Return what is asked where the cluster changes."""
        named = self.conducted()
        return {name: named[name] for name in ("EASY", "model", "nowcast", "oracle", "oracle, harm")}


ADAA = EXPERIMENTS["ADAA"]


def beside_easy(
    bench: Bench,
    named: Mapping[str, Setting],
    *,
    baseline: str = "EASY",
    of: Experiment = ADAA,
    cluster: str = CLUSTER,
    seeds: range | None = None,
) -> pd.DataFrame:
    """Run trials of settings by name and compare them with the ``baseline``, EASY where it is not named.

    Rows of :func:`pipelines.workflows.cluster_experiments.stratified` over all applications, with ``skipped``, a share, and the
    baseline's name ``against``.
    """
    named = named if baseline in named else {baseline: Setting(EASY), **named}
    tried = seeds or bench.seeds
    parts = [bench.runs(of, setting, tried, cluster).assign(scheduler=name) for name, setting in named.items()]
    runs = described(pd.concat(parts, ignore_index=True), bench.known(cluster, of), baseline)
    shares = {name: asking_rate(runs, name) for name in named}
    found = stratified(runs, baseline)
    found = found[found["application"] == ALL]
    order = {name: place for place, name in enumerate(named)}
    found = found.sort_values("scheduler", key=lambda names: names.map(order), kind="stable")
    return found.assign(skipped=found["scheduler"].map(shares), against=baseline)


def conducted(bench: Bench, of: Experiment, settings: Settings, cluster: str = CLUSTER) -> Conducted:
    """Conduct an experiment; the coin skips as often as the model, with its patience."""
    named = [*settings.conducted().values()]
    parts = [bench.runs(of, setting, bench.seeds, cluster) for setting in named]
    model = settings.model().scheduler
    rate = asking_rate(pd.concat(parts, ignore_index=True), model)
    coin = Setting(rush("coin", patience=settings.chosen.patience), coin=round(rate, 4))
    parts.append(bench.runs(of, coin, bench.seeds, cluster))
    known = bench.known(cluster, of)
    names = (*(setting.scheduler for setting in named), coin.scheduler)
    return Conducted(of, names, described(pd.concat(parts, ignore_index=True), known, EASY), known, rate)


def first_trials(made: Conducted, count: int = PUBLISHED_TRIALS) -> Conducted:
    """Return the same with its first trials only."""
    seeds = sorted(made.runs["seed"].unique())[:count]
    runs = made.runs[made.runs["seed"].isin(seeds)].reset_index(drop=True)
    return replace(made, runs=described(runs, made.known, made.baseline))


def choices(bench: Bench) -> tuple[pd.DataFrame, dict[str, Choice]]:
    """Try all cutoffs with all patiences on the trials to choose on; return the comparison, and the choices by name."""
    named = {f"{cutoff:g}, {patience:,} s": Choice(cutoff, patience) for cutoff in CUTOFFS for patience in CHOICES}
    settings = {name: Settings(each, each).model() for name, each in named.items()}
    return beside_easy(bench, settings, seeds=bench.other_seeds), named


def harm_choices(bench: Bench, patience: int) -> tuple[pd.DataFrame, dict[str, Choice]]:
    """Try cutoffs with harm and one patience on a quarter of the trials to choose on, as it takes long."""
    named = {f"{cutoff:g}": Choice(cutoff, patience) for cutoff in HARM_CUTOFFS}
    settings = {name: Settings(each, each).harm() for name, each in named.items()}
    seeds = bench.other_seeds
    return beside_easy(bench, settings, seeds=seeds[: max(len(seeds) // 4, PUBLISHED_TRIALS)]), named


def cutoffs(bench: Bench, settings: Settings) -> pd.DataFrame:
    """Try all cutoffs with the chosen patience on the trials that everything is measured on."""
    patience = settings.chosen.patience
    named = {f"{cutoff:g}": Choice(cutoff, patience) for cutoff in CUTOFFS}
    return beside_easy(bench, {name: Settings(each, each).model() for name, each in named.items()})


def choice(found: pd.DataFrame, named: Mapping[str, Choice]) -> Choice:
    """Choose the cutoff and patience that leave the fewest runs with variation at the price.

    By control runs, with makespan and mean wait at most :data:`PRICE` longer; if none is so cheap, those of least price.
    """
    rows = looked_up(found)
    prices = {name: max(rows[name, ALL, metric]["relative"] for metric in ("makespan_s", "wait_s")) for name in named}
    cheap = [name for name in named if prices[name] <= PRICE]
    left = {name: rows[name, ALL, "varied"]["mean"] for name in named}
    return named[min(cheap, key=left.__getitem__) if cheap else min(prices, key=prices.__getitem__)]


def placements(bench: Bench, settings: Settings) -> pd.DataFrame:
    """Compare the model with informed placement with that of best fit, on the trials to choose on."""
    named = {"best fit": settings.model(), "informed": settings.model(placement=INFORMED)}
    return beside_easy(bench, named, baseline="best fit", seeds=bench.other_seeds)


def by_themselves(made: Conducted) -> pd.Series:
    """Return how many runs with variation a trial exceed their limit alone on the machine, by scheduler.

    Their own spread is enough for that, and no scheduler can help it.
    """
    runs = made.runs
    limit = made.known["limit_s"].reindex(pd.MultiIndex.from_frame(runs[["application", "nodes"]])).to_numpy()
    return (runs["varied"] & (runs["work_s"].to_numpy() > limit)).groupby(runs["scheduler"]).sum() / made.trials


def patiences(bench: Bench, settings: Settings) -> dict[str, pd.DataFrame]:
    """Return how long a job may wait, on ADAA, by what is asked."""
    asked = {
        "model": lambda patience: settings.model(patience=patience),
        "oracle, harm": lambda patience: Setting(rush("oracle", patience=patience, harm=True)),
    }
    return {name: beside_easy(bench, {f"{patience:,} s": make(patience) for patience in PATIENCES}) for name, make in asked.items()}


def lasting(bench: Bench, settings: Settings) -> dict[str, pd.DataFrame]:
    """Conduct ADAA where disturbances last longer or shorter, by how many times as long."""
    clusters = {f"{times:g}": f"{CLUSTER} x{times:g}" if times != 1 else CLUSTER for times in LASTING}
    return {times: beside_easy(bench, settings.bounds(), cluster=cluster) for times, cluster in clusters.items()}


def months(bench: Bench, settings: Settings, days: float) -> pd.DataFrame:
    """Simulate continuous load under EASY, model, nowcast and oracle with harm; a row a day, load and ``scheduler``."""
    named = {name: setting for name, setting in settings.bounds().items() if name != "oracle"}
    parts = [bench.month(load, setting, days, CLUSTER).assign(scheduler=name) for load in LOADS for name, setting in named.items()]
    return pd.concat(parts, ignore_index=True)


def of_month(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare sums over days of one load with EASY's, with errors over days: rows of ``compared``."""
    wide = rows.pivot(index="day", columns="scheduler", values=["varied", "wait_s", "runtime"]).astype("float64")
    wide.columns = pd.MultiIndex.from_tuples([(scheduler, ALL, metric) for metric, scheduler in wide.columns])
    return compared(wide.rename_axis(columns=["scheduler", "application", "metric"]), "EASY")


def main(argv: Sequence[str] | None = None) -> None:
    from benchmarks.papers.rush_page import draw, parts, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=400, help=f"of each experiment; the first {PUBLISHED_TRIALS} are shown apart")
    parser.add_argument("--chosen-on", type=int, default=200, help="trials that cutoff and patience are chosen on")
    parser.add_argument("--days", type=float, default=30.0, help="of continuous load that says what is usual")
    parser.add_argument("--month", type=float, default=30.0, help="days of continuous load under each scheduler")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "rush", help="where results are kept")
    parser.add_argument("--write", action="store_true", help="write the tables into the pages, and their pictures")
    options = parser.parse_args(argv)
    if min(options.trials, options.chosen_on) < PUBLISHED_TRIALS:
        raise InputError(f"at least {PUBLISHED_TRIALS} trials")
    bench = Bench(options.keep, options.trials, options.chosen_on, options.days, options.threads)
    tried, named = choices(bench)
    chosen = choice(tried, named)
    harmful = harm_choices(bench, chosen.patience)
    settings = Settings(chosen, choice(*harmful))
    made = {of.name: conducted(bench, of, settings) for of in EXPERIMENTS.values()}
    found = {
        "apart": beside_easy(bench, settings.apart(), baseline="EASY, best fit"),
        "first": beside_easy(bench, settings.apart(), baseline="EASY, first fit"),
        "steps model": beside_easy(bench, settings.steps()["model"], baseline="EASY, first fit"),
        "steps oracle": beside_easy(bench, settings.steps()["oracle"], baseline="EASY, first fit"),
        "cutoffs": tried,
        "harm cutoffs": harmful[0],
        "judged cutoffs": cutoffs(bench, settings),
        "placements": placements(bench, settings),
        "everies": beside_easy(bench, {f"{every} s": settings.model(every=every) for every in EVERIES}),
        "oracles": beside_easy(
            bench, {f"{beyond:g}": Setting(rush("oracle", patience=BOUND_PATIENCE), beyond=beyond) for beyond in LIMITS}
        ),
    }
    asked = {
        "EASY, no counters": Setting(EASY),
        "EASY, all 90 counters of 512 nodes, features of every job": None,
        "the model of 282 features, ten skips": settings.shipped(),
        "the model": settings.model(),
        "the oracle with harm": settings.conducted()["oracle, harm"],
    }
    tables = parts(
        bench,
        settings,
        made,
        found,
        stormy=conducted(bench, ADAA, settings, STORMY),
        patience=patiences(bench, settings),
        lasting=lasting(bench, settings),
        month=months(bench, settings, options.month),
        timed=bench.timed(CLUSTER, asked),
    )
    tables["settings"] += "\n\n" + made_by("papers.rush", argv)
    if not options.write:
        print("\n\n".join(tables.values()))
        return
    write(tables)
    draw(list(made.values()), found, patiences(bench, settings), STUDIES)


if __name__ == "__main__":
    main()
