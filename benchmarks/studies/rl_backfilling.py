"""Does a backfilling agent, trained as RLBackfilling is, beat rules? One look at testing weeks.

RLBackfilling (Kolker-Hicks, Zhang & Dai, PMBS 2023) picks by PPO which job is backfilled before EASY's head. Here it is trained on the first
40 % of the weeks of KTH-SP2 and SDSC-SP2 (:mod:`benchmarks.studies.rl_backfilling_training`), and the weights that are best on the
next 10 % are judged on the second half, which nothing before has read. Otherwise than there, as far as its abstract and RLScheduler's code tell: the
mask keeps the head's reservation, windows are warmed up, and the reward is given as slowdown grows, not at the end.

The weights, an ``.npz`` of numpy, play greedily at each stop of the loop; ``--register`` registers both in MLflow.
Controls: ``untrained``, the same network as it was drawn, and
``coin``, a candidate or none drawn evenly. Each policy schedules the second half as recorded and under ``REPLICATES`` - 1 shakes of 60 s by
requested times; changes from EASY are paired by week and replicate, 95 % intervals of :mod:`sim.metrics.comparison`. ``learned`` is the order
that ``queuecast policy train`` learns by default from the first half's weeks; those of ``docs/examples`` need predictions that no agent here has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types.schema import Schema, TensorSpec

from benchmarks.common.card import Card, parser, study
from benchmarks.common.dots import dots
from benchmarks.common.pages import STUDIES
from benchmarks.studies.rl_backfilling_agent import LAYERS, OF_JOB, OF_MACHINE, SLOTS, WEIGHTS, actions
from features.clock import WEEK_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.shaking import SHAKE_S
from pipelines.ingest.read import read_trace
from sim.campaigns.learned_order import ALGORITHM, BACKFILL, Learning, learn_order
from sim.environments import Agent
from sim.metrics.comparison import compare
from sim.metrics.schedule_metrics import evaluate
from sim.policy import Policy
from sim.schedule import Schedule
from sim.simulate import simulate_policy

DATA = STUDIES / "data"
FILES = {"kth-sp2": ("KTH-SP2", "KTH-SP2-filtered.swf.gz", 100), "sdsc-sp2": ("SDSC-SP2", "SDSC-SP2-filtered.swf.gz", 128)}
REPLICATES = 10
POLICIES = ("EASY", "EASY-SJBF", "SAF-EASY-SPF", "learned", "Harm", "RL agent", "untrained", "coin")
FAILS = (
    "One agent per trace, one seed, half a million steps. Settings missing in the paper's abstract are RLScheduler's. "
    'SAF has no starvation limit; "learned" has 200,000 s.'
)
METRICS = {"mean_bounded_slowdown": "slowdown", "awf_s": "AWF", "p2sf_s": "P2SF", "longest_wait_s": "longest wait"}


def trace_of(name: str, shared: Path) -> CleanTrace:
    """Return a trace of ``FILES``."""
    _, file, procs = FILES[name]
    return clean(read_trace(shared / "traces" / file, procs=procs), procs)


def agent(file: Path) -> Agent:
    """Return the agent whose weights are in ``file``."""
    weights = dict(np.load(file))
    return Agent(lambda seen: int(actions(weights, **{name: each[None] for name, each in seen.items()})[0]), slots=SLOTS)


def coin(seed: int) -> Agent:
    """Return an agent that draws one of the candidates, or none."""
    rng = np.random.default_rng(seed)

    def act(seen: dict[str, np.ndarray]) -> int:
        count = int(seen["mask"][:SLOTS].sum())
        drawn = int(rng.integers(count + 1))
        return drawn if drawn < count else SLOTS

    return Agent(act, slots=SLOTS)


def register(name: str) -> str:
    """Register the trained agent of a trace in MLflow's registry as ``backfiller-<trace>``; return its version."""
    tensors = {"jobs": (np.float32, SLOTS, OF_JOB), "machine": (np.float32, OF_MACHINE), "mask": (np.int8, SLOTS + 1)}
    seen = [TensorSpec(np.dtype(kind), (-1, *shape), each) for each, (kind, *shape) in tensors.items()]
    with mlflow.start_run(run_name=f"backfiller-{name}"):
        mlflow.log_params({"layers": LAYERS, "slots": SLOTS, "trained_on": name, "weeks": "the first 40 %"})
        logged = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(Path(__file__).with_name("rl_backfilling_agent.py")),
            artifacts={WEIGHTS: str(DATA / f"rl-backfilling-{name}.npz")},
            signature=ModelSignature(Schema(seen), Schema([TensorSpec(np.dtype(np.int64), (-1,))])),
            pip_requirements=["mlflow", "numpy"],
            registered_model_name=f"backfiller-{name}",
        )
    return str(logged.registered_model_version)


def halves(trace: CleanTrace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the jobs of the first and second half of a trace's weeks, as the environments cut them."""
    week = (trace.jobs["submit_s"] - trace.jobs["submit_s"].iloc[0]) // WEEK_S
    later = week >= round(0.5 * (week.iloc[-1] + 1))
    return trace.jobs[~later].reset_index(drop=True), trace.jobs[later].reset_index(drop=True)


def schedules(name: str, trace: CleanTrace) -> Iterator[Schedule]:
    """Yield the schedules of the second half, named by ``POLICIES``."""
    first, second = halves(trace)
    learned = learn_order(first, Learning(), trace=name, procs=trace.procs, clock=trace.clock).score
    base, file = Policy(shake_s=SHAKE_S), f"rl-backfilling-{name}"
    rules = {rule: base._replace(scheduler=rule) for rule in ("EASY", "EASY-SJBF", "SAF-EASY-SPF")}
    rules["learned"] = base._replace(scheduler=f"SCORE({learned})-{ALGORITHM}-{BACKFILL}", starvation_s=Learning().starvation_s)
    rules["Harm"] = base._replace(scheduler="Harm", predictor="prior")
    for seed, label in product(range(REPLICATES), POLICIES):
        policy = rules.get(label, base._replace(scheduler="List"))._replace(seed=seed, shake_s=SHAKE_S if seed else 0)
        agents = {"RL agent": lambda: agent(DATA / f"{file}.npz"), "untrained": lambda: agent(DATA / f"{file}-untrained.npz")}
        agents["coin"] = partial(coin, seed)
        decider = agents[label]().decider() if label in agents else None
        schedule = simulate_policy(second, policy, procs=trace.procs, clock=trace.clock, trace=name, decider=decider)
        print(name, label, seed, f"{evaluate(schedule)['mean_bounded_slowdown']:.2f}, {schedule.simulate_s:.1f} s", flush=True)
        yield replace(schedule, scheduler=label, starvation_s=None)


def measured(shared: Path) -> pd.DataFrame:
    """Return changes of ``METRICS`` from EASY and from EASY-SJBF; ``trace against`` and the columns of a comparison."""
    tables = []
    for name, (title, *_) in FILES.items():
        all_schedules = list(schedules(name, trace_of(name, shared)))
        for base in ("EASY", "EASY-SJBF"):
            tables.append(compare(all_schedules, (base, "requested"), list(METRICS)).assign(trace=title, against=base))
    return pd.concat(tables, ignore_index=True)


def card(rows: pd.DataFrame, how: str) -> Card:
    """Return the card of the study."""
    by = rows.set_index(["against", "trace", "scheduler", "metric"])[["relative", "low", "high"]] * 100
    titles = [title for title, *_ in FILES.values()]

    def change(*at: str) -> str:
        return "{:+.0f} [{:+.0f}, {:+.0f}]".format(*by.loc[at])

    table = pd.DataFrame({"policy": POLICIES[1:]})
    for title in titles:
        table[title] = [change("EASY", title, each, "mean_bounded_slowdown") for each in POLICIES[1:]]
    for metric, label in list(METRICS.items())[1:]:
        cells = [[f"{by.loc[('EASY', title, each, metric), 'relative']:+.0f}" for title in titles] for each in POLICIES[1:]]
        table[label] = ["/".join(each) for each in cells]
    beside = " and ".join(f"{change('EASY-SJBF', title, 'RL agent', 'mean_bounded_slowdown')} % on {title}" for title in titles)
    worse = [by.loc[("EASY-SJBF", title, "RL agent", "mean_bounded_slowdown"), "high"] < 0 for title in titles]
    verdict = "beats" if all(worse) else "does not beat" if not any(worse) else "beats on one trace"
    return Card(
        question="Does a learned backfiller beat rules?",
        answer=f"RLBackfilling (Kolker-Hicks et al., 2023) {verdict} EASY-SJBF: slowdown changes by {beside}.",
        picture="rl-backfilling.png",
        picture_caption="Testing weeks, 95 % intervals",
        table=table,
        table_caption=f"Changes from EASY, % [95 %]: slowdown by trace, others KTH-SP2/SDSC-SP2; {REPLICATES} replays, {REPLICATES - 1} shaken:",
        fails=FAILS,
        data=[
            "rl-backfilling.csv",
            *(f"rl-backfilling-{name}-training.csv" for name in FILES),
        ],
        made_by=how,
    )


def draw(rows: pd.DataFrame) -> bytes:
    """Draw the changes from EASY, a panel a trace."""
    shown = rows[(rows["against"] == "EASY") & (rows["scheduler"] != "EASY")]
    shown = shown.assign(panel=shown["trace"], row=shown["scheduler"], series=shown["metric"].map(METRICS))
    shown[["value", "low", "high"]] = 100 * shown[["relative", "low", "high"]]
    return dots(shown, "change from EASY, %", dict.fromkeys([title for title, *_ in FILES.values()], 0.0), linear=100)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--register", action="store_true", help="register the trained agents, and end")
    options = arguments.parse_args()
    if options.register:
        for name in FILES:
            print(f"models:/backfiller-{name}/{register(name)}")
        return
    study(options, "studies.rl_backfilling", "rl-backfilling.csv", lambda: measured(options.shared), card, draw)


if __name__ == "__main__":
    main()
