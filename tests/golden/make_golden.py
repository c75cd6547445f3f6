"""Write the frozen schedules of ``tests/golden``: small generated workloads, scheduled by the oracle. Run ``python -m tests.golden.make_golden``.

Each file is a CSV that says in its first lines what it is, and holds the jobs as well as their schedule: reading it needs neither this
recipe nor the oracle. The files were reviewed by hand (``golden/README.md``); make them anew only to add one, and review that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.jobs.cleaning import clean
from sim.workloads.workload import Workload, generate
from tests.oracle import scheduler as oracle

GOLDEN = Path(__file__).parent

# name: seed, jobs, machine, longest request in minutes, scheduler by its parts, predictor
CASES: dict[str, tuple[int, int, int, int, dict[str, Any], str]] = {
    "easy": (1, 60, 10, 1, {"algorithm": "EASY"}, "requested"),
    "easy-sjbf": (2, 120, 64, 60, {"algorithm": "EASY", "backfill": "SPF"}, "requested"),
    "easy-sjbf-clairvoyant": (2, 120, 64, 60, {"algorithm": "EASY", "backfill": "SPF"}, "clairvoyant"),
    "easy-sjbf-last2": (3, 200, 64, 240, {"algorithm": "EASY", "backfill": "SPF"}, "last2"),
    "saf-easy-spf-corrected": (4, 120, 64, 60, {"algorithm": "EASY", "order": "SAF", "backfill": "SPF"}, "estimate_s"),
    "list": (1, 60, 10, 1, {"algorithm": "List"}, "requested"),
    "strict": (1, 60, 10, 1, {"algorithm": "Strict"}, "requested"),
}


# name: machine, scheduler, predictor, correction, semantics; the policy's parts for the oracle
SLICES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "slice-easy": ({"scheduler": "EASY", "predictor": "requested", "correction": "requested", "semantics": "per-second"}, {}),
    "slice-easy-sjbf-last2-tsafrir": (
        {"scheduler": "EASY-SJBF", "predictor": "last2", "correction": "tsafrir", "semantics": "per-event"},
        {"backfill": "SPF", "predictor": "last2", "correction": "tsafrir", "semantics": "per-event"},
    ),
}
SLICE = (2000, 400)
"""First job and number of jobs of the trace ``generated``, as the first version of the generator made it."""


def trace_slice() -> tuple[pd.DataFrame, int]:
    """A slice of the generated trace of generator 1, cleaned, as a canonical table, and its machine."""
    trace = clean(generate(Workload(jobs=10_000, procs=256, users=100, load=0.6, seed=0, generator=1)))
    first, size = SLICE
    return trace.jobs.iloc[first : first + size].reset_index(drop=True), trace.procs


def frozen_slice(name: str) -> tuple[dict[str, str], pd.DataFrame]:
    """What the oracle makes of the slice under the policy ``name``: the head of the file, and its table."""
    head, parts = SLICES[name]
    jobs, machine = trace_slice()
    columns = ["job_id", "submit_s", "runtime_s", "procs", "requested_s", "user"]
    table = jobs[columns].astype({"user": "str"})
    frozen = by_oracle(table, machine, {key: value for key, value in parts.items() if key != "predictor"}, head["predictor"])
    what = f"jobs {SLICE[0] + 1} to {sum(SLICE)} of the trace generated (tests/golden/make_golden.py) as scheduled by the oracle, seconds"
    return {"what": what, "machine": str(machine), **head}, frozen


def workload(seed: int, size: int, machine: int, longest_minutes: int) -> pd.DataFrame:
    """Jobs as a busy machine sees them: many short and narrow, requests in tenths of the longest, a few users, bursts within a second.

    ``estimate_s`` is a poor guess, as often below the runtime as above it, at most the request.
    """
    rng = np.random.default_rng(seed)
    requested = 6 * longest_minutes * np.ceil(10 * rng.random(size) ** 2).astype(int)
    runtime = np.ceil(requested * rng.beta(0.6, 0.9, size)).astype(int)
    procs = np.ceil(machine * rng.random(size) ** 3).astype(int)
    mean_gap_s = (runtime * procs).mean() / machine  # as much work as the machine can do
    gaps = np.where(rng.random(size) < 0.4, 0, rng.exponential(mean_gap_s / 0.6, size))
    guesses = np.ceil(runtime * rng.lognormal(0.0, 0.7, size)).astype(int)
    return pd.DataFrame(
        {
            "job_id": np.arange(1, size + 1),
            "submit_s": np.cumsum(gaps).astype(int),
            "runtime_s": runtime,
            "procs": procs,
            "requested_s": requested,
            "user": [f"u{number}" for number in rng.integers(1, 6, size)],
            "estimate_s": np.minimum(guesses, requested),
        }
    )


def read(name: str) -> tuple[dict[str, str], pd.DataFrame]:
    """What a frozen schedule says about itself (machine, scheduler, predictor), and its table of jobs."""
    file = GOLDEN / f"{name}.csv"
    head = [line[2:] for line in file.read_text().splitlines() if line.startswith("# ")]
    return dict(line.split(": ", 1) for line in head), pd.read_csv(file, comment="#")


def by_oracle(jobs: pd.DataFrame, machine: int, parts: dict[str, Any], predictor: str) -> pd.DataFrame:
    """``jobs`` with start_s, predicted_s and corrections."""
    column = {"clairvoyant": "runtime_s", "estimate_s": "estimate_s"}.get(predictor, "requested_s")
    start, predicted, corrections = oracle.simulate(
        jobs["submit_s"].tolist(),
        jobs["runtime_s"].tolist(),
        jobs["procs"].tolist(),
        jobs["requested_s"].tolist(),
        machine,
        user=jobs["user"].tolist(),
        estimates=jobs[column].tolist(),
        predictor="last2" if predictor == "last2" else None,
        **parts,
    )
    return jobs.assign(start_s=start, predicted_s=predicted, corrections=corrections)


def write(name: str, head: dict[str, Any], jobs: pd.DataFrame) -> None:
    """Put a frozen schedule in its place."""
    text = "".join(f"# {key}: {value}\n" for key, value in head.items()) + jobs.to_csv(index=False, lineterminator="\n")
    (GOLDEN / f"{name}.csv").write_text(text)


def main() -> None:
    for name in SLICES:
        write(name, *frozen_slice(name))
    for name, (seed, size, machine, longest_minutes, parts, predictor) in CASES.items():
        jobs = by_oracle(workload(seed, size, machine, longest_minutes), machine, parts, predictor)
        order, backfill = parts.get("order", "FCFS"), parts.get("backfill", "FCFS")
        scheduler = f"{order}-{parts['algorithm']}" + (f"-{backfill}" if parts["algorithm"] == "EASY" else "")
        head = {
            "what": f"generated workload (tests/golden/make_golden.py, seed {seed}) as scheduled by the oracle, per-second semantics, seconds",
            "machine": machine,
            "scheduler": scheduler,
            "predictor": predictor,
            "correction": "requested",
        }
        write(name, head, jobs)


if __name__ == "__main__":
    main()
