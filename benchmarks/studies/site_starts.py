"""Judge answers about a Slurm site's queue: its scheduler run ahead, alone and read by a model.

KTH-SP2's jobs run on a made site (one replay of its Slurm is the record, so what runs ahead is the site's own rule, and waits are simulated). At
moments of the product (:mod:`pipelines.dated.queue_moments`) waiting jobs are asked about. In each of ``WINDOWS`` of the second half a model learns
from 30 days, is calibrated each midnight, and answers the next 30. Settings were fixed on the first half.
``python -m benchmarks.studies.site_starts --write`` makes docs/studies/data/site-starts.csv.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.card import parser, write_rows
from benchmarks.common.pages import STUDIES
from features.clock import DAY_S
from features.jobs.cleaning import clean
from models.packed.start_distribution import LEVELS, at_levels
from models.packed.start_predictor import BOTH, HAZARD, POOLED, SLURM, STATE
from models.runtime.distribution import losses
from models.starts.evaluation import WAITED_S
from models.starts.model import Questions, Told, answered, better, calibrated, reading, told_of, trained
from pipelines.dated.queue_moments import DAYS, EVERY_S, Moments
from pipelines.ingest.read import read_trace
from pipelines.ingest.slurm_jobs import SlurmJobs
from pipelines.workflows.when import record_of
from sim.questions import from_states
from sim.site_replay import replay
from sim.slurm.files import read_site

WINDOWS = 3
CONF = """\
ClusterName=kth
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=500
PriorityWeightFairshare=2000
NodeName=n[001-100] CPUs=1
PartitionName=batch Nodes=ALL Default=YES MaxTime=7-0
"""
_HELD_OUT = 0.2


def moments(shared: Path) -> Moments:
    """Return the record, and all its moments."""
    trace = clean(read_trace(str(shared / "traces/KTH-SP2-1996-2.1-cln.swf.gz")), procs=100)
    jobs, users = trace.jobs, sorted(set(trace.jobs["user"].astype(str)))
    accounts = "Parent - 'root'\nAccount - 'all':Fairshare=1\nParent - 'all'\n" + "".join(
        f"User - '{each}':Fairshare=1\n" for each in users
    )
    site, numbers = read_site({"slurm.conf": CONF, "accounts.dump": accounts}, "kth"), np.arange(len(jobs))
    columns = {name: jobs[name].to_numpy(np.int64) for name in ("submit_s", "runtime_s", "requested_s", "procs")}
    table = pd.DataFrame(
        {
            **{
                "job_id": numbers.astype(str),
                "number": numbers,
                "group": numbers + 1,
                "task": -1,
                "runtime_s": columns["runtime_s"],
            },
            **{
                "submit_s": columns["submit_s"] + (trace.origin_unix_s or 0),
                "limit_s": columns["requested_s"],
                "cpus": columns["procs"],
            },
            **{
                "least_limit_s": columns["requested_s"],
                "min_nodes": columns["procs"],
                "user": jobs["user"].astype(str),
                "account": "all",
            },
            **{"partition": "batch", "qos": "normal", "killed": False, "requeues": False, "exclusive": False},
            **dict.fromkeys(("eligible_s", "held_s", "cancel_s"), -1),
            **dict.fromkeys(("max_nodes", "memory_node", "memory_cpu", "gpus", "throttle", "nice"), 0),
            **dict.fromkeys(("features", "after", "reservation", "licenses", "nodelist", "exclude"), ""),
        }
    )
    schedule = replay(site, table, 7)
    start = np.floor(schedule.start_s).astype(np.int64)
    table = table.assign(start_s=start, end_s=start + table["runtime_s"], nodes=schedule.nodes)
    times = table["submit_s"].to_numpy()
    at_s = times[np.unique(times // EVERY_S, return_index=True)[1]]
    numbered = dict(zip(table["job_id"], numbers.tolist(), strict=True))
    return Moments(record_of(site, SlurmJobs(table, (), "kth"), "UTC"), tuple(at_s.tolist()), {}, numbered, table)


def asked(of: Moments, since_s: int, until_s: int) -> Questions:
    """Return the questions of the moments in a span."""
    some = Moments(of.record, tuple(each for each in of.at_s if since_s <= each < until_s), {}, of.number, of.accounting)
    keys = pd.MultiIndex.from_tuples([(job, at) for at, jobs in some.wanted() for job in jobs], names=["job_id", "at_s"])
    table = some.asked(keys, 0, SLURM, 0, lambda done, of: None).reset_index()
    return from_states(table, table["job_id"].to_numpy(np.int64))


def nightly(questions: Questions, start_s: np.ndarray, middle_s: int, kinds: tuple[str, ...]) -> tuple[str, np.ndarray]:
    """Return distributions told after ``middle_s`` by a model of what came before, calibrated each midnight.

    And which of ``kinds`` it reads, by questions that it has not learned from.
    """
    first = questions.take(questions.at_s < middle_s)
    split = int(len(first) * (1 - _HELD_OUT))
    held = questions.take(np.arange(split, len(questions)))

    def forecasts(until: int) -> Told:
        model = trained(HAZARD, questions.take(np.arange(until)), start_s, int(questions.at_s[until]), 0)
        distributions = told_of(model, held)
        return {kind: distributions[kind] for kind in kinds}

    before, after, later = forecasts(split), forecasts(len(first)), held.at_s >= middle_s
    waited, waits = held.take(~later).waited(start_s, middle_s)
    kind, _ = better({each: before[each][~later] for each in kinds}, waited, waits)
    kinds = tuple({STATE, kind})
    raw = {kind: np.where(later[:, None], after[kind], before[kind]) for kind in kinds}
    model, day = trained(HAZARD, first, start_s, middle_s, 0), held.at_s // DAY_S
    model = reading(model, kind)
    distributions = np.empty_like(raw[kinds[0]])
    for number in np.unique(day[later]):
        own = calibrated(model, raw, int(held.at_s[0]), held, start_s, int(number) * DAY_S)
        here = later & (day == number)
        distributions[here] = answered(own, {kind: each[here] for kind, each in raw.items()})
    return kind, distributions[later]


def rows_of(of: Moments) -> Iterator[pd.DataFrame]:
    """Yield a table of figures a window: pinball loss and coverage of jobs that waited, by what answered."""
    assert of.accounting is not None
    submit, start_s = (of.accounting[name].to_numpy(np.int64) for name in ("submit_s", "start_s"))
    half, last = int(submit[len(submit) // 2]), int(submit[-1])
    for number in range(WINDOWS):
        begin = half + number * (last - half) // WINDOWS
        middle = begin + DAYS * DAY_S
        questions = asked(of, begin, middle + DAYS * DAY_S)
        later = questions.take(questions.at_s >= middle)
        waited = (start_s[later.row] - later.at_s).astype(np.float64)
        past = questions.take(questions.at_s < middle).waited(start_s, middle)[0]
        levels = np.array(LEVELS)
        kinds = {
            "Slurm ahead, as the product reads it": (STATE, BOTH, POOLED),
            "read by trees alone": (STATE, BOTH),
            "state alone": (STATE,),
        }
        answers = {name: nightly(questions, start_s, middle, each) for name, each in kinds.items()}
        quantiles_s = {name: at_levels(each, levels) for name, (_, each) in answers.items()}
        quantiles_s["Slurm ahead alone"] = np.quantile(later.scenarios, levels, axis=1, method="nearest").T
        quantiles_s["constant"] = np.tile(np.quantile(past, levels), (len(later), 1))
        waits = waited > WAITED_S
        for name, values in quantiles_s.items():
            held = {
                f"held_{share}": np.mean((waited >= low) & (waited <= high), where=waits) for share, low, high in _shares(values)
            }
            loss = losses(values, levels, waited)[waits].mean()
            figures = {
                "window": number,
                "told_by": name,
                "read": answers[name][0] if name in answers else "",
                "answers": int(waits.sum()),
                "loss_s": loss,
                **held,
            }
            yield pd.DataFrame([figures])


def _shares(values: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    return [(share, values[:, low], values[:, -1 - low]) for share, low in ((90, 0), (80, 1), (50, 2))]


def main() -> None:
    options = parser(__doc__).parse_args()
    tables = []
    for each in rows_of(moments(options.shared)):
        print(each.to_string(header=not tables), flush=True)
        tables.append(each)
    if options.write:
        write_rows(STUDIES / "data" / "site-starts.csv", pd.concat(tables, ignore_index=True))


if __name__ == "__main__":
    main()
