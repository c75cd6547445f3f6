"""Judge predicted starts of jobs on recorded waits and on the same logs under EASY.

``python -m benchmarks.studies.starts`` prints the card; ``--write`` makes docs/studies/starts.md, its picture and its data. Needs logs under ``--shared``.
All settings were chosen on first halves, by a model of the first 60 % of them.

Protocol: questions at each submission of the second half (one in ``EVERY``). Each 30 days a model is trained on the
``LEARNED`` questions before, of which those whose jobs wait are censored, and calibrated each midnight on answers of the 30 days before, as far as
they had come true. All baselines are trained on the same days: a ``constant``, the quantiles of waits before; ``hour and size``, the same by hour
and width; ``last waits`` of the user; plans, the start by EASY that runs ahead with ``requested`` or ``last2`` runtimes and no arrivals, with
the quantiles of its errors before (of jobs told to start at once, and of others); ``state, LightGBM``: its quantile regression, a model a level, of
the state alone; ``state``, our model that reads that alone; and ``shuffled``, the one with scenarios, with labels in random order. As in the product, a
model of the first 80 % of the questions chooses on the others what ours reads: the state, scenarios too, or the mean of that and of scenarios.
Losses are compared in pairs, by the log's weeks (:mod:`features.statistics`), at one confidence for all levels, logs and baselines (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd

from benchmarks.common.card import parser, rows_of, study
from benchmarks.studies.starts_card import BURST, MAINTENANCE, card, draw
from benchmarks.studies.starts_measures import OURS, measured
from features.clock import DAY_S, Clock
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import recorded_end_s, start_s
from models.packed.start_distribution import EDGES_S, LEVELS, at_levels
from models.packed.start_predictor import BOTH, HAZARD, POOLED, STATE
from models.runtime.names import predictor
from models.runtime.protocol import CompiledPredictor
from models.starts.bulk import chances as all_chances
from models.starts.evaluation import MONTH_S, WAITED_S
from models.starts.model import better, told_of, trained
from models.starts.states import PLANS, Jobs
from models.starts.training import ENOUGH, LEARNED, calibrate, grow
from pipelines.ingest.read import read_trace
from pipelines.workflows.when import CHANGES, changed, surely_sooner
from sim.ahead import Ahead, Coming
from sim.closings import drained
from sim.predicted_limits import along
from sim.questions import Questions, ask, queued, queues
from sim.simulate import simulate

LOGS = {
    "kth-sp2": ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
    "alcf-theta": ("ALCF-Theta-2022-chunks.swf.gz", 4360),
    "lanl-cm5": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024),
}
EVERY = {"kth-sp2": 2, "alcf-theta": 2, "lanl-cm5": 8}
"""Of so many jobs in a row one is asked about; all of them run and wait."""
RULES = ("recorded", "EASY", BURST, MAINTENANCE)
CASES = [(log, rule) for log in LOGS for rule in RULES[:2]] + [("kth-sp2", BURST), ("kth-sp2", MAINTENANCE)]
"""Logs as recorded and under EASY; two are altered at three quarters: a user submits a thousand jobs within an hour, or the machine takes no job for a day."""


@dataclass(frozen=True)
class Case:
    """A log with recorded starts, or under EASY; of an altered one which jobs were ``added``, and from when until when what alters it runs."""

    log: str
    rule: str
    trace: CleanTrace
    jobs: Jobs
    added: np.ndarray
    span: tuple[int, int] = (0, 0)

    @property
    def clock(self) -> Clock:
        return self.trace.clock


def case(shared: Path, log: str, rule: str) -> Case:
    """Return a log whose jobs start as ``recorded``, or under ``EASY``; altered, if ``rule`` says so.

    What closes the machine is in no queue: it is left out once the log is simulated.
    """
    file, procs = LOGS[log]
    trace = clean(read_trace(str(shared / "traces" / file)), procs=procs)
    added = np.zeros(len(trace.jobs), bool)
    if rule in (BURST, MAINTENANCE):
        trace, added = altered(trace, *((1, procs, DAY_S) if rule == MAINTENANCE else (1_000, 8 * procs // 100, 1_800)))
    begun = start_s(trace.jobs)
    assert begun is not None
    end = recorded_end_s(trace.jobs, begun)
    if rule != "recorded":
        begun = simulate(trace.jobs, procs=procs).jobs["start_s"].to_numpy(np.int64)
        end = begun + trace.jobs["runtime_s"].to_numpy(np.int64)
    span = (int(begun[added].min()), int(end[added].max())) if added.any() else (0, 0)
    if rule == MAINTENANCE:
        trace, begun, end = replace(trace, jobs=trace.jobs[~added].reset_index(drop=True)), begun[~added], end[~added]
        added = added[~added]
    return Case(log, rule, trace, queued(trace, begun, end), added, span)


def altered(trace: CleanTrace, count: int, procs: int, runtime_s: int) -> tuple[CleanTrace, np.ndarray]:
    """Return a log with ``count`` jobs of a new user within an hour, and which these are.

    They come at three quarters of it, each of so many processors, asking for twice their runtime.
    """
    jobs = trace.jobs.assign(user=trace.jobs["user"].cat.add_categories("new"), new=False)
    at, first = 3 * len(jobs) // 4, int(jobs["job_id"].max()) + 1
    times = int(jobs["submit_s"].iloc[at]) + np.arange(count) * 3_600 // count
    like = jobs.iloc[[at] * count].assign(job_id=first + np.arange(count), submit_s=times, procs=procs, user="new", new=True)
    like = like.assign(runtime_s=runtime_s, requested_s=2 * runtime_s)
    all_jobs = pd.concat([jobs, like]).astype(jobs.dtypes).sort_values("submit_s", kind="stable", ignore_index=True)
    return replace(trace, jobs=all_jobs.drop(columns="new")), all_jobs["new"].to_numpy(bool)


def questions(of: Case) -> tuple[Questions, int]:
    """Return questions at submission, from ``LEARNED`` before the second half on, and the second at which that begins.

    EASY runs ahead, with the closings that the first half kept to, if any.
    """
    half, every = len(of.jobs.submit) // 2, EVERY[of.log]
    until_s = int(of.jobs.submit[half])
    pool = drained(of.trace.jobs, of.trace.procs, of.clock, of.jobs.start, of.jobs.end, until_s)
    rows = np.arange(max(half - LEARNED * every, 0), len(of.jobs.submit), every)
    asked = ask(of.jobs, rows, of.jobs.submit[rows], Ahead(of.trace.procs, pool=pool), of.clock)
    return asked, until_s


def plans(of: Case, asked: Questions) -> dict[str, np.ndarray]:
    """Return the start by EASY that runs ahead with requested and with ``last2`` runtimes, seconds, float64 [questions]."""
    source = predictor("last2")
    assert isinstance(source, CompiledPredictor)
    last2 = along(source, of.trace.jobs, of.jobs.end, of.clock)
    runtimes = {"plan, requested": of.jobs.requested, "plan, last2": np.clip(np.rint(last2), 1, of.jobs.requested).astype(np.int64)}
    ahead, starts_s = Ahead(of.trace.procs, scenarios=1, groups=1), {name: np.empty(len(asked)) for name in runtimes}
    for number, (job, now, runs, waits) in enumerate(queues(of.jobs, asked.row, asked.at_s)):
        for name, runtime in runtimes.items():
            starts_s[name][number] = ahead.plan(of.jobs, runs, waits, now, runtime)[np.searchsorted(waits, job)]
    return starts_s


def last_waits(of: Case, asked: Questions) -> np.ndarray:
    """Return quantiles of the user's last ten waits that were known, [questions, levels]; of all jobs' for a new user."""
    jobs, quantiles_s = of.jobs, np.empty((len(asked), len(LEVELS)))
    wait, order, count = jobs.start - jobs.submit, np.argsort(jobs.start, kind="stable"), 0
    begun, of_all, own = jobs.start[order], [], {}  # type: ignore[var-annotated]
    for number, (job, now) in enumerate(zip(asked.row, asked.at_s, strict=True)):
        while count < len(order) and begun[count] < now:
            own.setdefault(jobs.user[order[count]], []).append(wait[order[count]])
            of_all.append(wait[order[count]])
            count += 1
        quantiles_s[number] = np.quantile((own.get(jobs.user[job]) or of_all or [0])[-10:], LEVELS)
    return quantiles_s


def with_errors(plan: np.ndarray, past: np.ndarray, waited: np.ndarray) -> np.ndarray:
    """Return a plan with the quantiles of its ``past`` errors, of jobs told to start at once and of others."""
    quantiles_s = np.empty((len(plan), len(LEVELS)))
    for at_once in (True, False):
        errors = (waited - past)[(past <= 60) == at_once]
        rows = (plan <= 60) == at_once
        quantiles_s[rows] = plan[rows, None] + (np.quantile(errors, LEVELS) if len(errors) else 0.0)
    return np.maximum(quantiles_s, 0.0)


def regressed(train: Questions, waited: np.ndarray, asked: Questions) -> np.ndarray:
    """Return the quantiles of LightGBM's quantile regression of the state alone, a model a level."""
    settings = {"num_leaves": 31, "learning_rate": 0.08, "min_data_in_leaf": 50, "feature_fraction": 0.6, "verbosity": -1}
    columns = []
    for level in LEVELS:
        data = lightgbm.Dataset(train.states, np.log1p(waited), params={"verbosity": -1})
        model = lightgbm.train({"objective": "quantile", "alpha": level, "num_threads": 1, "seed": 0, **settings}, data, 150)
        columns.append(np.expm1(model.predict(asked.states)))
    return np.maximum(np.sort(np.column_stack(columns), axis=1), 0.0)


def by_hour_and_size(of: Case, train: Questions, waited: np.ndarray, asked: Questions, wait_s: float) -> np.ndarray:
    """Return base rates of starting within ``wait_s`` by hour of the day and width, float64 [questions]."""

    def cell(each: Questions) -> np.ndarray:
        return (each.states[:, 3] // 4).astype(int) * 8 + np.minimum(-np.log2(each.states[:, 0]), 7).astype(int)

    came, rate = (waited <= wait_s).astype(float), (waited <= wait_s).mean()
    count, sums = np.bincount(cell(train), minlength=64), np.bincount(cell(train), came, minlength=64)
    return ((sums + 20 * rate) / (count + 20))[cell(asked)]


def judged(of: Case, asked: Questions, first_s: int, progress: Callable[[str], object] = print) -> Iterator[pd.DataFrame]:
    """Yield a table a month of answers to the questions from ``first_s`` on, trained and calibrated as the protocol says.

    Columns: the question, its wait, and of each method the quantiles, or of ours also the chances at each edge.
    """
    planned, last, raw_by_kind = plans(of, asked), last_waits(of, asked), {kind: [] for kind in (STATE, BOTH, POOLED)}  # type: ignore[var-annotated]
    wait, months = (of.jobs.start[asked.row] - asked.at_s).astype(float), range(first_s, int(asked.at_s[-1]) + 1, MONTH_S)
    for begin in months:
        here = np.flatnonzero((asked.at_s >= begin) & (asked.at_s < begin + MONTH_S))
        before = np.flatnonzero(asked.at_s < begin)[-LEARNED:]
        if not len(here):
            continue
        train, (past, waits) = asked.take(before), asked.take(before).waited(of.jobs.start, begin - 1)
        started, now = ~waits, asked.take(here)
        rows: dict[str, np.ndarray] = {
            "constant": np.tile(np.quantile(past[started], LEVELS), (len(here), 1)),
            "last waits": last[here],
            "state, LightGBM": regressed(train.take(started), past[started], now),
        }
        rows |= {name: with_errors(each[here], each[before][started], past[started]) for name, each in planned.items()}
        chances, shuffled = {}, np.random.default_rng(0).permutation(len(past))
        ours = trained(HAZARD, train, of.jobs.start, begin - 1, 0)
        for kind, each in told_of(ours, now).items():
            raw_by_kind[kind].append((here, each))
            chances[kind] = _answered(of, asked, here, raw_by_kind[kind])
        chances[OURS] = chances[_read(of, train, begin - 1)]
        del chances[BOTH], chances[POOLED]
        model = grow(train.states, train.states[:, list(PLANS)], train.scenarios, past[shuffled], waits[shuffled])
        chances["shuffled"] = all_chances(model, now.states, now.states[:, list(PLANS)], now.scenarios)
        rows |= {name: at_levels(each, np.array(LEVELS)) for name, each in chances.items()}
        table = pd.DataFrame({"row": asked.row[here], "at_s": asked.at_s[here], "waited_s": wait[here]})
        for name, values in rows.items():
            table = table.assign(**{f"{name} {level}": values[:, column] for column, level in enumerate(LEVELS)})
        table = table.assign(**{f"chance {edge:g}": chances[OURS][:, column] for column, edge in enumerate(EDGES_S)})
        for name, within in (("1h", 3600.0), ("4h", 14400.0)):
            table[f"base {name}"] = by_hour_and_size(of, train.take(started), past[started], now, within)
        progress(f"{of.log} {of.rule}: month of {begin // DAY_S}, {len(here):,} questions")
        yield table


def _read(of: Case, train: Questions, until_s: int) -> str:
    """Return what a model of the first questions tells the others best with."""
    split = int(len(train) * 0.8)
    last = train.take(np.arange(split, len(train)))
    model = trained(HAZARD, train.take(np.arange(split)), of.jobs.start, int(last.at_s[0]), 0)
    return better(told_of(model, last), *last.waited(of.jobs.start, until_s))[0]


def _answered(of: Case, asked: Questions, here: np.ndarray, months: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return a month's answers, calibrated each midnight on what was told in the 30 days before; the last of ``months`` is its own."""
    raw = months[-1][1]
    known_rows, recent = (np.concatenate(each) for each in zip(*months[-2:], strict=True))
    calibrated, day, _start = raw.copy(), asked.at_s[here] // DAY_S, of.jobs.start
    for midnight in np.unique(day) * DAY_S:
        past = (asked.at_s[known_rows] < midnight) & (asked.at_s[known_rows] >= midnight - MONTH_S)
        if past.sum() >= ENOUGH:
            waited, waits = asked.take(known_rows[past]).waited(of.jobs.start, int(midnight) - 1)
            today = day == midnight // DAY_S
            age = (midnight - asked.at_s[known_rows[past]]).astype(float)
            calibrated[today] = calibrate(recent[past], waited, waits, age).apply(raw[today])
    return calibrated


def everything(shared: Path, logs: Sequence[str], rules: Sequence[str]) -> pd.DataFrame:
    """Return :func:`measured` of the second halves of all logs."""
    tables = []
    for log, rule in CASES:
        if log in logs and rule in rules:
            of = case(shared, log, rule)
            asked, first_s = questions(of)
            tables.append(measured(pd.concat(judged(of, asked, first_s), ignore_index=True), log, rule, len(CASES)))
    return pd.concat(tables, ignore_index=True)


def sooner(of: Case, count: int, seed: int = 0) -> pd.DataFrame:
    """Return changes of waiting jobs that were called sure, and what they bring with true runtimes and arrivals.

    Rows ``what sure told_s came_s``, of ``count`` jobs of the second half that wait under EASY; changes that would kill the job are left out.
    """
    jobs, half = of.jobs, len(of.jobs.submit) // 2
    rows = half + np.flatnonzero((jobs.start > jobs.submit + WAITED_S)[half:])
    rows = np.sort(np.random.default_rng(seed).choice(rows, min(count, len(rows)), replace=False))
    ahead, changes = Ahead(of.trace.procs, scenarios=64), []
    for job, now, runs, waits in queues(jobs, rows, jobs.submit[rows]):
        place, runtime = np.searchsorted(waits, job), jobs.end - jobs.start
        later = np.arange(job + 1, np.searchsorted(jobs.submit, now + 14 * DAY_S))
        coming = Coming(jobs.submit[later] - now, jobs.procs[later], jobs.requested[later], runtime[later], later)
        before = ahead.starts(jobs, runs, waits, now)[:, place]
        truly = ahead.plan(jobs, runs, waits, now, runtime, coming)[place]
        for what, (wide, long) in CHANGES.items():
            procs, requested = int(np.ceil(jobs.procs[job] * wide)), int(jobs.requested[job] * long)
            if runtime[job] > requested or (procs, requested) == (jobs.procs[job], jobs.requested[job]):
                continue
            other = changed(jobs, job, procs, requested)
            gained = ahead.starts(other, runs, waits, now)[:, place] - before
            came = ahead.plan(other, runs, waits, now, runtime, coming)[place] - truly
            changes.append((what, surely_sooner(gained), gained.mean(), came))
    return pd.DataFrame(changes, columns=["what", "sure", "told_s", "came_s"])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--log", action="append", choices=list(LOGS), help="all by default")
    arguments.add_argument("--rule", action="append", choices=RULES, help="all by default")
    arguments.add_argument("--sooner", type=int, help="look at changes of so many waiting jobs of the logs under EASY instead")
    options = arguments.parse_args()
    if options.sooner:
        for log in options.log or LOGS:
            changes = sooner(case(options.shared, log, "EASY"), options.sooner)
            sure, rest = changes[changes["sure"]], changes[~changes["sure"]]
            print(
                log,
                f"{len(changes)} changes, {len(sure)} sure: {(sure['came_s'] < 0).sum()} sooner, {(sure['came_s'] > 0).sum()} later, rest equal; "
                f"{len(rest)} not: {(rest['came_s'] < 0).sum()} sooner, {(rest['came_s'] > 0).sum()} later",
            )
        return

    def compute() -> pd.DataFrame:
        return everything(options.shared, options.log or list(LOGS), options.rule or RULES)

    if options.log or options.rule:
        rows, _ = rows_of(options, "studies.starts", "starts.csv", compute)
        print(rows[rows["jobs"] > 0].to_string())
        return
    study(options, "studies.starts", "starts.csv", compute, card, draw)


if __name__ == "__main__":
    main()
