"""Measure what waiting for a quiet machine is worth: RUSH (Nichols et al.), simulated.

RUSH asks a classifier, before a job starts, whether it would vary: run much longer than its application usually does, because network or
file system are busy. If so the job waits, and is asked about again. Everything is simulated (``sim/cluster``): 512 nodes under 16 leaf
switches, a shared file system, seven applications, 90 counters a node.

* Control runs: a continuous load of 0.7 under EASY. ``model`` learns how much longer a run takes, in classes (z beyond 0.5, 1.2, 1.5, 3
  and 6), from 4,000 runs of each application in 30 days, and lets a job wait where the probability of z above 1.5 reaches its cutoff;
  it sees 28 columns. The model as published learns three classes from 500 of each, from 282 columns, and skips ten times.
* Cutoff and patience are those that leave the fewest varying runs, with makespan and mean wait at most 1 % longer, on 200 trials that nothing
  else is measured on; features and the range of patience came from yet other seeds. All else is measured on trials, control runs
  and a month with seeds that nothing was chosen on.
* Experiments are those of the paper's table II; a trial's seed decides what is submitted, the background and each run's own luck, so
  schedulers are compared on the same trials, beside FCFS and EASY backfilling with best fit.
* The oracle knows the machine as it is and how the background will go on; the nowcast knows all but the background to come; the coin
  skips as often as the model, with its patience.
* Errors are standard errors, intervals (95 %) percentiles, both from a paired bootstrap over trials. Trials with a storm in EASY's run (others
  ask for three quarters of the file system or more) are a stratum of their own: they are rare and hold half of all variation.

``python -m benchmarks.papers.nichols.rush`` prints the tables; ``--write`` puts them into docs/studies/data/rush.csv and rush-assumptions.csv and
makes both cards and their pictures; ``--figures`` writes figures 4 to 11 of the paper into a folder. What was simulated is kept under
``--keep`` and used again only by the same code.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from benchmarks.common.pages import HOUSE, STUDIES, made_by
from benchmarks.common.tables import write_data
from benchmarks.papers.nichols.experiments import ALL, EASY, EXPERIMENTS, Conducted, Experiment, asking_rate, pooled, stratified
from benchmarks.papers.nichols.tables import looked_up
from benchmarks.papers.nichols.trials import Bench, Setting
from features.errors import InputError

CLUSTER, STORMY = "congested", "stormy"
FIRST = "@first-fit"
"""Placements other than best fit, the default."""
EVERY = 10
"""Seconds after which a job with patience is asked about again at the earliest."""
BOUND_PATIENCE = 1200
"""Patience of oracle and nowcast, in seconds."""
PATIENCES = (300, 600, 900, 1200, 1800, 2400, 3600)
CHOICES = (600, 900, 1200, 1800)
"""Patiences to choose from."""
CUTOFFS = (0.1, 0.15, 0.2, 0.3)
"""The ladder of cutoffs: probabilities of variation from which on a job waits."""
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


def rush(model: str, *, skips: int = 0, patience: int = 0, every: int = EVERY, placement: str = "") -> str:
    """Return the name of a scheduler that asks ``model``: with ``skips`` as the paper has them, or with a patience."""
    options = [f"model={model}"]
    options += [f"skips={skips}"] if skips else []
    options += [f"patience={patience},every={every}"] if patience else []
    return f"EASY+RUSH({','.join(options)}){placement}"


@dataclass(frozen=True)
class Settings:
    """All settings that are compared, by their names on the pages; ``chosen`` is the model's."""

    chosen: Choice

    def model(self, **options: object) -> Setting:
        """Return the model with what was chosen for it, but for ``options`` of :func:`rush`."""
        return Setting(rush("model", **{"patience": self.chosen.patience, **options}), self.chosen.cutoff)  # type: ignore[arg-type]

    def shipped(self, **options: object) -> Setting:
        """Return the model of all 282 features, by default with the paper's ten skips."""
        return Setting(rush("shipped", **({"skips": 10} | options)), 0.8)  # type: ignore[arg-type]

    def conducted(self) -> dict[str, Setting]:
        """Return what all experiments are conducted with; the first is the baseline."""
        return {
            "EASY": Setting(EASY),
            "model": self.model(),
            "as published": self.shipped(),
            "nowcast": Setting(rush("nowcast", patience=BOUND_PATIENCE)),
            "oracle": Setting(rush("oracle", patience=BOUND_PATIENCE)),
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
            },
            "oracle": {
                "EASY, first fit": Setting(EASY + FIRST),
                "+ oracle, ten skips": Setting(rush("oracle", skips=10, placement=FIRST)),
                "+ best fit": Setting(rush("oracle", skips=10)),
                "+ patience": Setting(rush("oracle", patience=BOUND_PATIENCE)),
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
            "model of 282 features, ten skips": self.shipped(),
            "model of 282 features, patience": self.shipped(skips=0, patience=self.chosen.patience),
            "model, ten skips": self.model(patience=0, skips=10),
            "model, patience": self.model(),
            "nowcast, patience": Setting(rush("nowcast", patience=BOUND_PATIENCE)),
            "oracle, ten skips": Setting(rush("oracle", skips=10)),
            "oracle, patience": Setting(rush("oracle", patience=BOUND_PATIENCE)),
        }
        return named

    def bounds(self) -> dict[str, Setting]:
        """Return what is asked where the cluster changes."""
        named = self.conducted()
        return {name: named[name] for name in ("EASY", "model", "nowcast", "oracle")}


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

    Rows of :func:`benchmarks.papers.nichols.experiments.stratified` over all applications, with ``skipped``, a share, and the
    baseline's name ``against``.
    """
    named = named if baseline in named else {baseline: Setting(EASY), **named}
    tried = seeds or bench.seeds
    parts = [bench.runs(of, setting, tried, cluster).assign(scheduler=name) for name, setting in named.items()]
    runs = pooled(pd.concat(parts, ignore_index=True), baseline)
    shares = {name: asking_rate(runs, name) for name in named}
    table = stratified(runs, baseline)
    table = table[table["application"] == ALL]
    order = {name: place for place, name in enumerate(named)}
    table = table.sort_values("scheduler", key=lambda names: names.map(order), kind="stable")
    return table.assign(skipped=table["scheduler"].map(shares), against=baseline)


def conducted(bench: Bench, of: Experiment, settings: Settings, cluster: str = CLUSTER) -> Conducted:
    """Conduct an experiment; the coin skips as often as the model, with its patience."""
    parts = [bench.runs(of, each, bench.seeds, cluster).assign(scheduler=name) for name, each in settings.conducted().items()]
    rate = asking_rate(pd.concat(parts, ignore_index=True), "model")
    coin = Setting(rush("coin", patience=settings.chosen.patience), coin=round(rate, 4))
    parts.append(bench.runs(of, coin, bench.seeds, cluster).assign(scheduler="coin"))
    return Conducted(of, pooled(pd.concat(parts, ignore_index=True)), bench.usual_for(cluster, of))


def first_trials(each: Conducted, count: int = PUBLISHED_TRIALS) -> Conducted:
    """Return the same with its first trials only."""
    seeds = sorted(each.runs["seed"].unique())[:count]
    return replace(each, runs=pooled(each.runs[each.runs["seed"].isin(seeds)].reset_index(drop=True)))


def choices(bench: Bench) -> tuple[pd.DataFrame, dict[str, Choice]]:
    """Try all cutoffs with all patiences on the trials to choose on; return the comparison, and the choices by name."""
    named = {f"{cutoff:g}, {patience:,} s": Choice(cutoff, patience) for cutoff in CUTOFFS for patience in CHOICES}
    settings = {name: Settings(each).model() for name, each in named.items()}
    return beside_easy(bench, settings, seeds=bench.other_seeds), named


def cutoffs(bench: Bench, settings: Settings) -> pd.DataFrame:
    """Try all cutoffs with the chosen patience on the trials that everything is measured on."""
    patience = settings.chosen.patience
    named = {f"{cutoff:g}": Choice(cutoff, patience) for cutoff in CUTOFFS}
    return beside_easy(bench, {name: Settings(each).model() for name, each in named.items()})


def choice(table: pd.DataFrame, named: Mapping[str, Choice]) -> Choice:
    """Choose the cutoff and patience that leave the fewest runs with variation at the price.

    By control runs, with makespan and mean wait at most :data:`PRICE` longer; if none is so cheap, those of least price.
    """
    rows = looked_up(table)
    prices = {name: max(rows[name, ALL, metric]["relative"] for metric in ("makespan_s", "wait_s")) for name in named}
    cheap = [name for name in named if prices[name] <= PRICE]
    left = {name: rows[name, ALL, "varied"]["mean"] for name in named}
    return named[min(cheap, key=left.__getitem__) if cheap else min(prices, key=prices.__getitem__)]


def patiences(bench: Bench, settings: Settings) -> dict[str, pd.DataFrame]:
    """Return how long a job may wait, on ADAA, by what is asked."""
    asked = {
        "model": lambda patience: settings.model(patience=patience),
        "oracle": lambda patience: Setting(rush("oracle", patience=patience)),
    }
    return {name: beside_easy(bench, {f"{patience:,} s": make(patience) for patience in PATIENCES}) for name, make in asked.items()}


def lasting(bench: Bench, settings: Settings) -> dict[str, pd.DataFrame]:
    """Conduct ADAA where disturbances last longer or shorter, by how many times as long."""
    clusters = {f"{times:g}": f"{CLUSTER} x{times:g}" if times != 1 else CLUSTER for times in LASTING}
    return {times: beside_easy(bench, settings.bounds(), cluster=cluster) for times, cluster in clusters.items()}


def months(bench: Bench, settings: Settings, days: float) -> pd.DataFrame:
    """Simulate continuous load under EASY, model, nowcast and oracle; a row a day, load and ``scheduler``."""
    named = settings.bounds().items()
    parts = [bench.month(load, setting, days, CLUSTER).assign(scheduler=name) for load in LOADS for name, setting in named]
    return pd.concat(parts, ignore_index=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate what is not kept; print the tables, or write data, cards and pictures."""
    from benchmarks.papers.nichols import cards, figures, tables
    from benchmarks.papers.nichols.published import beside

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=400, help=f"of each experiment; the first {PUBLISHED_TRIALS} are shown apart")
    parser.add_argument("--chosen-on", type=int, default=200, help="trials that cutoff and patience are chosen on")
    parser.add_argument("--days", type=float, default=30.0, help="of continuous load that says what is usual")
    parser.add_argument("--month", type=float, default=30.0, help="days of continuous load under each scheduler")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "rush", help="where results are kept")
    parser.add_argument("--write", action="store_true", help="write the tables as data, the cards, and their pictures")
    parser.add_argument("--figures", type=Path, help="write figures 4 to 11 of the paper into this folder")
    options = parser.parse_args(argv)
    if min(options.trials, options.chosen_on) < PUBLISHED_TRIALS:
        raise InputError(f"at least {PUBLISHED_TRIALS} trials")
    bench = Bench(options.keep, options.trials, options.chosen_on, options.days, options.threads)
    tried, named = choices(bench)
    settings = Settings(choice(tried, named))
    done = [conducted(bench, of, settings) for of in EXPERIMENTS.values()]
    parts = {
        "apart": beside_easy(bench, settings.apart(), baseline="EASY, best fit"),
        "first": beside_easy(bench, settings.apart(), baseline="EASY, first fit"),
        "steps model": beside_easy(bench, settings.steps()["model"], baseline="EASY, first fit"),
        "steps oracle": beside_easy(bench, settings.steps()["oracle"], baseline="EASY, first fit"),
    }
    patient, longer = patiences(bench, settings), lasting(bench, settings)
    everies = beside_easy(bench, {f"{every} s": settings.model(every=every) for every in EVERIES})
    oracles = beside_easy(
        bench, {f"{beyond:g}": Setting(rush("oracle", patience=BOUND_PATIENCE), beyond=beyond) for beyond in LIMITS}
    )
    asked = {
        "EASY, no counters": Setting(EASY),
        "EASY, all 90 counters of 512 nodes, features of every job": None,
        "the model of 282 features, ten skips": settings.shipped(),
        "the model": settings.model(),
        "the oracle": settings.conducted()["oracle"],
    }
    few = [first_trials(each) for each in done]
    columns = {f"`model`, {PUBLISHED_TRIALS} trials": (few, "model"), f"`model`, {bench.trials} trials": (done, "model")}
    columns[f"as published, {bench.trials} trials"] = (done, "as published")
    result = {
        "ladder": tables.ladder(parts),
        "beside": beside(columns),
        "experiments": tables.experiments(done)
        + "".join(f"\n\n## {each.experiment.name}\n\n{tables.by_application(each)}" for each in done),
    }
    assumed = {
        "cutoffs": "\n\n".join(
            f"{what}:\n\n{tables.settings_table('cutoff', table)}"
            for what, table in (
                ("Trials to choose on", tried),
                ("Trials that are judged", cutoffs(bench, settings)),
            )
        ),
        "patience": "\n\n".join(f"{model}:\n\n{tables.settings_table('patience', rows)}" for model, rows in patient.items()),
        "everies": tables.settings_table("asked again after", everies),
        "oracles": tables.settings_table("the oracle skips beyond z of", oracles),
        "lasting": "\n\n".join(tables.settings_table(f"{times} times as long", rows) for times, rows in longer.items()),
        "clusters": tables.experiments([conducted(bench, ADAA, settings, STORMY)]),
        "month": tables.month(months(bench, settings, options.month)),
        "time": tables.seconds(bench.timed(CLUSTER, asked)),
    }
    if options.figures is not None:
        options.figures.mkdir(parents=True, exist_ok=True)
        for name, image in figures.published(done).items():
            (options.figures / f"{name}.png").write_bytes(image)
    if not options.write:
        print("\n\n".join([*result.values(), *assumed.values()]))
        return
    write_data(STUDIES / "rush.md", result)
    write_data(STUDIES / "rush-assumptions.md", assumed)
    (STUDIES / "rush-ladder.png").write_bytes(figures.ladder({model: parts[f"steps {model}"] for model in ("model", "oracle")}))
    (STUDIES / "rush-patience.png").write_bytes(figures.patience(patient))
    cards.rush(made_by("papers.nichols.rush", argv)).write("rush")
    cards.assumptions(made_by("papers.nichols.rush", argv)).write("rush-assumptions")


if __name__ == "__main__":
    main()
