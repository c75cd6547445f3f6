"""Simulate random hostile workloads with bounds-checked kernels, and compare a part with the plain-Python oracle.

Ties, jobs as wide as the machine, times at the limits, unknown users, users that react, dependencies in a cycle or on jobs that there are not, under every
algorithm, order, predictor, correction, semantics and start decision. Every schedule is checked: each job once, no more processors than there
are, finite metrics. What cannot be simulated must be refused in a sentence.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import config

from features.errors import InputError
from features.limits import PROCESSORS, SECONDS
from models.runtime.names import ALL
from sim.kernel import passes, profile, queue, scratch
from sim.kernel.corrections import CORRECTIONS
from sim.metrics.schedule_metrics import evaluate
from sim.schedule import Schedule
from tests.campaigns.counts import Counts
from tests.oracle.decisions import Whim
from tests.oracle.sessions import waits
from tests.support.patience import limit, unlimited
from tests.support.workloads import PURE, TABLE_CORRECTIONS, Workload, columns, policy_of

ATTEMPTS = 12_000
_HANGS_S = 120
CHECKED, PLAIN = {"NUMBA_BOUNDSCHECK": "1"}, {"NUMBA_DISABLE_JIT": "1"}
"""Kernels compiled with checks, minutes once; kernels as plain Python, slow jobs but at once."""
ALGORITHMS = ("EASY", "EASY(reservations=2)", "JustBF", "Conservative", "List", "Strict")
WEIGHING = ("Harm", "Harm(scenarios=1,short=0)", "Harm(width_credit=5,packing=0)")
"""Schedulers that draw scenarios, with orders of their own; their oracles are asked in tests/sim."""
SEMANTICS = ("per-second", "per-event", "per-second(expiry=pass)", "per-event(expiry=pass,every=50)", "per-second(every=30)")
TABLES = ("estimates", "requested", "clairvoyant", "requested*2")
MIXED = ("MIXED(n=1,r=2,wait=3)", "MIXED(n=1,wait=2,expansion=3,standardised=yes)")


def variables(folder: Path) -> dict[str, str]:
    """Return those of a process whose kernels are compiled anew, with checks."""
    return {**CHECKED, "NUMBA_CACHE_DIR": str(folder / "kernels")}


def campaign(attempts: int, seed: int, folder: Path) -> Counts:
    """Make ``attempts`` simulations."""
    if config.DISABLE_JIT:
        small_blocks()
    short = Workload(2, [0, 0], [1, 1], [2, 1], [1, 1], [None, None], [1, 1])
    short.schedule("EASY")  # compiled before time is taken: minutes, with bounds checked
    short.schedule("EASY+RUSH(skips=3)", start_decision=Whim())
    short.schedule("Harm")
    counts = Counts()
    for number in range(seed * 1_000_000, seed * 1_000_000 + attempts):
        draw = random.Random(number)
        load, policy = workload(draw), settings(draw)
        limit(_HANGS_S, _hangs)
        try:
            outcome, finding = attempt(load, policy)
        except Exception as error:  # whatever it is, it is a finding
            outcome, finding = "failed", f"{type(error).__name__}: {error}"
        unlimited()
        counts.add(outcome, finding and f"attempt {number}, {len(load.submit)} jobs, {policy}: {finding}")
    return counts


REACTING = {
    f"{loop}(rule={rule},session={seconds})": (loop, seconds, rule)
    for loop, seconds, rule in (
        ("closed", 1200, "last"),
        ("closed", 9, "arrival"),
        ("semi-open", 60, "last"),
        ("semi-open", 0, "max"),
    )
}


ABSENT = ("nuwt_mean", "nuwt_sd", "complaints", "predicted_start_error_s")
"""Metrics that some schedules do not have: no user is known, nothing is planned."""


def small_blocks() -> None:
    """Let few jobs be as many as thousands are to the compiled kernels: tiny blocks, searched as in the deepest queue."""
    profile.BITS, profile.SIZE, profile.FILLED, profile.DEEP = 2, 4, 2, 2
    scratch.SIZE = 4
    queue.LONG, passes.LONG = 4, 4


def _hangs(*_: object) -> None:
    raise TimeoutError(f"no answer in {_HANGS_S} s")


def workload(draw: random.Random) -> Workload:
    """Draw jobs as no site has them."""
    size = draw.choice([1, 2, draw.randint(3, 12), draw.randint(3, 60), draw.randint(3, 60), 300])
    machine = draw.choice([1, 2, 12, draw.randint(1, 100), 4096, PROCESSORS])
    longest = draw.choice([2, 60, 5000, 100_000, SECONDS])
    gap = draw.choice([0, 1, longest // 3, longest]) if longest < SECONDS else draw.choice([0, SECONDS // size])

    def seconds() -> int:
        return draw.choice([1, longest, draw.randint(1, longest), draw.randint(1, longest)])

    requested = [seconds() for _ in range(size)]
    runtime = [min(seconds(), most) for most in requested]
    wide = [draw.choice([1, machine, draw.randint(1, machine), draw.randint(1, max(1, machine // 8))]) for _ in range(size)]
    at, submit = draw.choice([0, SECONDS // 2 if gap * size < SECONDS // 2 else 0]), []
    for _ in range(size):
        at += draw.choice([0, 0, gap, draw.randint(0, gap)])
        submit.append(at)
    load = Workload(
        machine,
        submit,
        runtime,
        wide,
        requested,
        [draw.choice(["ann", "bob", "eve", None]) for _ in range(size)] if draw.random() < 0.8 else [None] * size,
        [min(seconds(), most) for most in requested],
        [draw.choice([None, None, number - 1, number - 2, number, number + 1, 1, -1, 0, 10**6]) for number in range(1, size + 1)],
        [draw.choice([None, 0, draw.randint(0, longest)]) for _ in range(size)],
        [draw.choice(["a", "b", None]) for _ in range(size)] if draw.random() < 0.5 else [],
        wait=[draw.choice([0, seconds()]) for _ in range(size)] if draw.random() < 0.8 else [],
    )
    if draw.random() < 0.05:  # what cleaning would have dropped
        draw.choice([load.runtime, load.procs, load.requested, load.submit])[draw.randrange(size)] = draw.choice(
            [0, -1, SECONDS + 1, machine + 1, 2**62, -(2**62)]
        )
    return load


def settings(draw: random.Random) -> dict[str, Any]:
    """Draw a policy, possible or not: :func:`sim.simulate`'s arguments, and ``asked``, a start decision's percent or None."""
    algorithm = draw.choice((*ALGORITHMS, *ALGORITHMS, *WEIGHING))
    order = "FCFS" if algorithm == "Conservative" else draw.choice(PURE)
    asked = draw.choice([None, None, None, 30, 100])
    policy: dict[str, Any] = {
        "scheduler": algorithm
        if algorithm in WEIGHING
        else f"{order}-{algorithm}" + (f"-{draw.choice(PURE)}" if algorithm.startswith("EASY") else ""),
        "predictor": draw.choice([*TABLES, *TABLES, *ALL, "prior"]),
        "correction": draw.choice([*TABLE_CORRECTIONS, *CORRECTIONS]),
        "semantics": draw.choice(SEMANTICS),
        "starvation_s": draw.choice([None, None, 0, 50, SECONDS]) if algorithm != "Conservative" else None,
        "dependencies": draw.random() < 0.2,
        "users": draw.choice(["open"] * 12 + [*REACTING]),
        "load": draw.choice([1.0] * 12 + [0.5, 3.0, 1e-6, 1e6]),
        "asked": asked,
    }
    if asked is None and draw.random() < 0.2:
        policy |= {"shake_s": draw.choice([1, 60, 3600]), "seed": draw.randint(0, 3)}
    return policy


def attempt(load: Workload, policy: dict[str, Any]) -> tuple[str, str | None]:
    """Simulate once; return what came of it, and what was wrong."""
    given = {name: value for name, value in policy.items() if name not in ("scheduler", "predictor", "asked")}
    scheduler, predictor, asked = policy["scheduler"], policy["predictor"], policy["asked"]
    if "every=" in given["semantics"] and max(load.requested) > 10**6:
        given["semantics"] = given["semantics"].split("(")[0]  # a pass every 30 s for 300 years ends, but not today
    if asked is not None:
        scheduler += "+RUSH(skips=3)"
        given["start_decision"] = Whim(percent=asked)
    try:
        schedule = load.schedule(scheduler, None if predictor == "estimates" else predictor, **given)
    except InputError as error:
        return "refused", None if 0 < len(str(error)) <= 300 and "\n" not in str(
            error
        ) else f"an error of {len(str(error))} characters"
    moved = given["dependencies"] or given["users"] != "open" or given["load"] != 1
    if wrong := faults(load, schedule, moved, shake_s=given.get("shake_s", 0)):
        return "wrong", wrong
    by_table = predictor in TABLES or (schedule.quantiles is None and given["correction"] in TABLE_CORRECTIONS)
    plain = (
        asked is None
        and not given.get("shake_s")
        and given["load"] == 1
        and len(load.submit) <= 60
        and given["correction"] in TABLE_CORRECTIONS
    )
    options = {name: given[name] for name in ("correction", "semantics", "starvation_s", "dependencies")}
    if not (by_table and plain) or "(every" in given["semantics"] or policy["scheduler"] in WEIGHING:
        return "whole", None
    if given["users"] != "open":
        end = [sum(times) for times in zip(load.submit, load.wait, load.runtime, strict=True)]
        options["waits"] = waits(load.user, load.submit, end, *REACTING[given["users"]])
    wanted = load.by_oracle(
        **policy_of(policy["scheduler"]),
        estimates=schedule.jobs["predicted_s"].tolist(),
        **options,
    )
    return ("as the oracle", None) if columns(schedule) == wanted else ("wrong", f"another schedule than the oracle's of {load}")


def faults(load: Workload, schedule: Schedule, moved: bool, shake_s: int) -> str:
    """Return what is wrong with a schedule of ``load``, or ""."""
    jobs = schedule.jobs
    submit, procs = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "procs"))
    if jobs["job_id"].tolist() != list(range(1, len(load.submit) + 1)) or procs.tolist() != load.procs:
        return "not every job once"
    if jobs["runtime_s"].tolist() != load.runtime:
        return "a job does not run its runtime"
    if not moved and (np.abs(submit - np.array(load.submit)) > shake_s).any():
        return "a job was not submitted as recorded"
    return impossible(schedule)


def impossible(schedule: Schedule) -> str:
    """Return what no schedule may be, or "": jobs out of time, processors used twice, metrics that are not finite."""
    submit, start, end, procs = (schedule.jobs[name].to_numpy(np.int64) for name in ("submit_s", "start_s", "end_s", "procs"))
    if (start < submit).any() or (end - start != schedule.jobs["runtime_s"]).any():
        return "a job starts before its submission, or ends at another time than its runtime says"
    held = np.repeat(procs, 2)
    held[1::2] *= -1
    when = np.column_stack([start, end]).ravel()
    order = np.lexsort((held, when))  # ends of a second first
    if np.cumsum(held[order]).max() > schedule.procs:
        return "more processors in use than there are"
    metrics = evaluate(schedule).drop(list(ABSENT), errors="ignore")
    bad = [name for name, value in metrics.items() if isinstance(value, (int, float)) and not math.isfinite(value)]
    return f"metrics {bad} are not finite" if bad else ""
