"""Measure what ``Harm`` changes on machines of nodes, beside EASY and JustBF on the same machine.

CERIT's whole log on its two clusters, submitted as recorded and 1.3 times as fast, under ``SHAKES`` shakes of up to 60 s; and ``SEEDS`` generated
sites of ``NODES`` nodes of 48 processors and 384 GiB, a fifth of them with four GPUs, at offered loads of 1.0 and 1.4, whose generated jobs
(:mod:`sim.workloads.workload`) are given nodes, memory and GPUs by chance. JustBF, which plans every waiting job on every node at each pass, runs
on CERIT as recorded alone, under the first ``FEWER`` shakes. Intervals (95 %) are Student's, of the logarithms of ratios within replicates: over seeds on the
sites; over shakes of one log on CERIT, where they say nothing of other weeks. ``--write`` writes the card and its rows, ``--card`` the card of
the rows that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

from benchmarks.common.card import Card, parser, study
from benchmarks.common.pages import HOUSE
from features.jobs.choices import SHAKE_S
from features.jobs.cleaning import CleanTrace, clean
from pipelines.readers.machine_file import read_machine
from pipelines.readers.read import read_trace
from sim import evaluate
from sim.machine.description import Cluster, Machine, NodeGroup
from sim.policy import Policy
from sim.simulation import simulate_policy
from sim.workloads.workload import Workload, generate

NODES, PROCS, MEMORY_KIB, GPUS, GIB = 500, 48, 384 << 20, 4, 1 << 20
JOBS, SEEDS, SHAKES, FEWER = 4000, 8, 5, 3
SITE, LOG = "500 nodes", "CERIT"
LOADS = {SITE: (1.0, 1.4), LOG: (1.0, 1.3)}
LONGEST = "longest_1_percent_s"
METRICS = {"mean_bounded_slowdown": "slowdown", "awf_s": "AWF", "p2sf_s": "P2SF", LONGEST: "longest 1 %"}
POLICIES = {
    "EASY": ("EASY", "requested"),
    "JustBF": ("JustBF", "requested"),
    "Harm, prior": ("Harm", "prior"),
    "Harm, quantile": ("Harm", "quantile"),
}


def site() -> Machine:
    """Return the generated site's machine."""
    plain, with_gpus = NodeGroup(NODES * 4 // 5, PROCS, MEMORY_KIB), NodeGroup(NODES // 5, PROCS, MEMORY_KIB, GPUS)
    return Machine("generated-500", (Cluster("site", (plain, with_gpus)),))


def asked(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return generated jobs with nodes, memory and GPUs.

    Each on as few nodes as hold it; a job in ten, on up to four nodes, with GPUs.
    """
    rng, procs = np.random.default_rng(seed), jobs["procs"].to_numpy(np.int64)
    nodes = -(-procs // PROCS)
    each = -(-procs // nodes)
    memory = each * rng.choice([1, 2, 4, 8, 16, 32], len(jobs), p=[0.1, 0.25, 0.3, 0.2, 0.1, 0.05]) * GIB
    gpus = np.where((rng.random(len(jobs)) < 0.1) & (nodes <= 4), rng.choice([1, 2, 4], len(jobs)) * nodes, 0)
    return jobs.assign(
        procs=nodes * each,
        nodes=pd.array(nodes, "Int64"),
        memory_kib=pd.array(nodes * np.minimum(memory, MEMORY_KIB), "Int64"),
        gpus=pd.array(gpus, "Int64"),
    )


def replicates(shared: Path) -> Iterator[tuple[str, float, int, CleanTrace, pd.DataFrame, Machine, Policy]]:
    """Yield each replicate: where, its load and number, trace, jobs, machine, and a policy to go by but for the scheduler."""
    cerit = read_machine(HOUSE / "benchmarks" / "studies" / "machines" / "cerit.toml")
    log = clean(read_trace(shared / "traces" / "CERIT-wagap-2013.swf.gz", procs=cerit.procs), cerit.procs, "drop", cerit.holds)
    for load in LOADS[LOG]:
        for seed in range(SHAKES):
            yield LOG, load, seed, log, log.jobs, cerit, Policy(seed=seed, shake_s=SHAKE_S, load=load)
    for load in LOADS[SITE]:
        for seed in range(SEEDS):
            drawn = clean(generate(Workload(jobs=JOBS, procs=NODES * PROCS, users=200, load=load, seed=seed)))
            yield SITE, load, seed, drawn, asked(drawn.jobs, seed), site(), Policy()


def measured(shared: Path) -> pd.DataFrame:
    """Return ``METRICS`` for each place, load, replicate and policy."""
    rows = []
    for place, load, replicate, trace, jobs, machine, policy in replicates(shared):
        for label, (scheduler, predictor) in POLICIES.items():
            if label == "JustBF" and ((place, load) != (LOG, 1.0) or replicate >= FEWER):
                continue
            by = policy._replace(scheduler=scheduler, predictor=predictor)
            schedule = simulate_policy(jobs, by, procs=machine.procs, machine=machine, clock=trace.clock)
            waits = np.sort((schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy())
            metrics = {**evaluate(schedule), LONGEST: waits[-max(len(waits) // 100, 1) :].mean()}
            rows.append((place, load, replicate, label, *(float(metrics[metric]) for metric in METRICS)))
            print(*rows[-1], f"{schedule.simulate_s:.1f} s", flush=True)
    return pd.DataFrame(rows, columns=["place", "load", "replicate", "policy", *METRICS])


def changed(rows: pd.DataFrame, policy: str, base: str = "EASY") -> pd.DataFrame:
    """Return a row a place and load: the mean change of each metric from ``base``, and half its interval.

    In per cent, over the replicates that both have.
    """
    values = rows.set_index(["place", "load", "replicate", "policy"])[list(METRICS)]
    ratios = np.log(values.xs(policy, level="policy") / values.xs(base, level="policy")).dropna()
    by = ratios.groupby(["place", "load"])
    half = by.sem().mul(t.ppf(0.975, by.size() - 1), axis=0)
    return 100 * pd.concat({"change": np.expm1(by.mean()), "half": half}, axis=1)


def cell(each: pd.Series, metric: str) -> str:
    """Return a change and half its interval."""
    return f"{each['change', metric]:+.0f}±{each['half', metric]:.0f}"


def card(rows: pd.DataFrame, how: str) -> Card:
    """Return the card of the study."""
    by = {policy: changed(rows, policy) for policy in list(POLICIES)[1:]}
    cells = []
    for place, load in by["Harm, prior"].sort_index(ascending=False).index:
        changes = [by[policy].loc[(place, load)] for policy in ("Harm, prior", "Harm, quantile")]
        cells.append([f"{place}, {load}", *("/".join(cell(each, metric) for metric in METRICS) for each in changes)])
    learned, plain = (by[policy]["change"] for policy in ("Harm, quantile", "Harm, prior"))
    slowdown, packing, fairness, _ = METRICS
    just = by["JustBF"].loc[(LOG, LOADS[LOG][0]), "change"]
    return Card(
        question="What does Harm change on nodes with memory and GPUs?",
        answer=f"With `quantile`, Harm changes slowdown by {learned[slowdown].min():+.0f} to {learned[slowdown].max():+.0f} % against EASY. With `prior`, "
        f"packing and fairness suffer on 500 nodes: AWF up to {plain[packing].max():+.0f} %, P2SF {plain[fairness].max():+.0f} %.",
        table=pd.DataFrame(cells, columns=["machine, load", "prior", "quantile"]),
        table_caption="Change from EASY in %, slowdown/AWF/P2SF/longest 1 % of waits, ± half the interval:",
        fails="CERIT's intervals are over shakes of one log; that of slowdown by `quantile` at 1.3 includes 0. "
        "JustBF on CERIT at 1.0, at a cost of 0.4 ms a job: "
        f"{'/'.join(f'{just[metric]:+.0f}' for metric in METRICS)}; on 500 nodes, JustBF takes too long; memory and GPUs are random.",
        data=["harm-nodes.csv"],
        made_by=how,
    )


def main() -> None:
    options = parser(__doc__).parse_args()
    study(options, "studies.harm_nodes", "harm-nodes.csv", lambda: measured(options.shared), card)


if __name__ == "__main__":
    main()
