"""Show what decides between EASY and ``Harm`` on generated workloads: full width, and requests that say nothing.

``python -m benchmarks.studies.harm_generated`` prints the table of docs/harm.md, ``--write`` puts it there and its rows beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.common.marked import replace_parts
from benchmarks.common.pages import HOUSE, STUDIES, made_by
from benchmarks.common.tables import markdown
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.shaking import SHAKE_S
from pipelines.ingest.workload import Workload, generate
from pipelines.storage.atomic import replacing
from sim import evaluate
from sim.policy import Policy
from sim.simulate import simulate_policy

SEEDS, REPLICATES, SHORT_S, ASKED_S = 8, 5, 600, 1800
"""Jobs that run less than ``SHORT_S`` ask, in a variant, for at most ``ASKED_S``."""
UNCREDITED = "`width_credit=0`"
METRICS = ("mean_bounded_slowdown", "awf_s", "p2sf_s")
POLICIES = {"EASY": "requested", "Harm": "prior"}


def spread(trace: CleanTrace) -> pd.DataFrame:
    """Return the jobs with those as wide as the machine at even distances.

    Submissions stay; jobs change places among them, and both kinds keep their order.
    """
    full = trace.jobs["procs"].to_numpy() == trace.procs
    places = ((np.arange(full.sum()) + 0.5) * len(full) / max(full.sum(), 1)).astype(np.int64)
    rows = np.empty(len(full), np.int64)
    rows[places] = np.flatnonzero(full)
    rows[np.delete(np.arange(len(full)), places)] = np.flatnonzero(~full)
    return trace.jobs.iloc[rows].reset_index(drop=True).assign(submit_s=trace.jobs["submit_s"].to_numpy())


def told(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs with requests of short ones that say so."""
    short = jobs["runtime_s"].to_numpy() < SHORT_S
    return jobs.assign(requested_s=jobs["requested_s"].mask(short, jobs["requested_s"].clip(upper=ASKED_S)))


def split(trace: CleanTrace) -> pd.DataFrame:
    """Return the jobs with two of half the width for each that is as wide as the machine."""
    full = trace.jobs["procs"].to_numpy() == trace.procs
    jobs = trace.jobs.assign(procs=trace.jobs["procs"].mask(full, trace.procs // 2))
    jobs = jobs.iloc[np.repeat(np.arange(len(full)), 1 + full)].reset_index(drop=True)
    return jobs.assign(job_id=np.arange(1, len(jobs) + 1))


VARIANTS: dict[str, tuple[int, Callable[[CleanTrace], pd.DataFrame]]] = {
    "`generator=1`": (1, lambda trace: trace.jobs),
    UNCREDITED: (1, lambda trace: trace.jobs),
    "full spread": (1, spread),
    "full split": (1, split),
    "short told": (1, lambda trace: told(trace.jobs)),
    "spread, told": (1, lambda trace: told(spread(trace))),
    "split, told": (1, lambda trace: told(split(trace))),
    "default": (2, lambda trace: trace.jobs),
}
"""Version of the generator, and what is made of its jobs."""


def measured() -> pd.DataFrame:
    """Return ``METRICS`` for each variant, seed, shaken replicate and scheduler."""
    rows = []
    for seed in range(SEEDS):
        for variant, (version, changed) in VARIANTS.items():
            trace = clean(generate(Workload(seed=seed, generator=version)))
            jobs = changed(trace)
            for replicate in range(REPLICATES):
                for scheduler, predictor in POLICIES.items():
                    rule = "Harm(width_credit=0)" if (scheduler, variant) == ("Harm", UNCREDITED) else scheduler
                    policy = Policy(scheduler=rule, predictor=predictor, seed=replicate, shake_s=SHAKE_S)
                    found = evaluate(simulate_policy(jobs, policy, procs=trace.procs, clock=trace.clock))
                    rows.append((variant, seed, replicate, scheduler, *(found[metric] for metric in METRICS)))
    return pd.DataFrame(rows, columns=["variant", "seed", "replicate", "scheduler", *METRICS])


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the change of each metric's mean over replicates from EASY to Harm, in per cent, by seed and variant."""
    means = rows.groupby(["scheduler", "seed", "variant"])[list(METRICS)].mean()
    return pd.DataFrame(100 * (means.xs("Harm") / means.xs("EASY") - 1))


def table(rows: pd.DataFrame) -> str:
    """Return a row a seed: slowdowns of the first variant, and changes of slowdown / AWF / P2SF in each."""
    change, first = changes(rows), next(iter(VARIANTS))
    slowdown = rows[rows["variant"] == first].groupby(["seed", "scheduler"])[METRICS[0]].mean().to_dict()
    cells = []
    for seed in sorted(set(rows["seed"])):
        told = [" / ".join(f"{value:+.0f}" for value in change.loc[seed, variant]) for variant in VARIANTS]
        cells.append([str(seed), *(f"{slowdown[seed, name]:.0f}" for name in POLICIES), *told])
    ends = [change.xs(name, level="variant")[METRICS[0]] for name in VARIANTS]
    cells.append(["all", "", "", *(f"{each.min():+.0f} to {each.max():+.0f}" for each in ends)])
    return markdown(["seed", *POLICIES, *VARIANTS], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/harm.md, and write its data")
    options = parser.parse_args()
    rows = measured()
    text = f"{table(rows)}\n\n{made_by('studies.harm_generated')}"
    print(text)
    if options.write:
        with replacing(STUDIES / "data" / "harm-generated.csv") as unfinished:
            rows.to_csv(unfinished, index=False, float_format="%.6g", lineterminator="\n")
        replace_parts(HOUSE / "docs" / "harm.md", {"generated workloads": text})


if __name__ == "__main__":
    main()
