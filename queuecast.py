"""Queuecast in notebooks and programs: ``import queuecast as qc``.

Each function calls the packages behind it, which are imported at the first call. A trace is a name of the catalogue, a path, a
table of jobs (a DataFrame with ``procs=``), or the result of :func:`read`. Invalid input raises an :class:`InputError` of one
line.

>>> import queuecast as qc
>>> print(qc.compare([qc.simulate("kth-sp2", name) for name in ("EASY", "EASY-SJBF")]).verdict)
One replay of each is one draw: no combination is surely better than EASY. EASY-SJBF has the lowest slowdown ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pipelines import hidden

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from features import CleanTrace
    from pipelines.report.comparison import ScheduleComparison
    from sim import Schedule
    from sim.campaigns.results import Results
    from sim.own.decide import Decides

if _line := hidden():
    raise ImportError(_line)

_ELSEWHERE = dict.fromkeys(("CleanTrace", "InputError", "jobs_from"), "features") | {"check_predictor": "sim.contracts"}
_ELSEWHERE |= dict.fromkeys(("Schedule", "View", "evaluate"), "sim")
"""Names from other packages, and their packages."""

Trace: TypeAlias = "str | Path | pd.DataFrame | CleanTrace"


def __dir__() -> list[str]:
    here = [name for name, value in globals().items() if getattr(value, "__module__", "") == __name__ and name[0] != "_"]
    return sorted([*_ELSEWHERE, *here])


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    from features.errors import meant

    raise AttributeError(f"queuecast has no {name!r}; {meant(name, __dir__()) or 'known: ' + ', '.join(__dir__())}")


def traces() -> list[str]:
    """Return the names of the catalogue.

    >>> "kth-sp2" in traces()
    True
    """
    from pipelines.readers.catalogue import load_catalogue

    return sorted(load_catalogue())


def table(name: str, trace: str, *, system: bool = False) -> pd.DataFrame:
    """Return a published table of a trace or a system, such as ``table("schedules", "kth-sp2")``.

    What the whole table has, such as ``origin_unix_s`` of its seconds, is in ``attrs``. ``queuecast lake`` lists the tables. Of
    ``schedules`` and ``comparison``, which both may have, it is the trace's, or with ``system`` the system's.

    >>> table("schedules", "kth-sp2")
    Traceback (most recent call last):
    ...
    features.errors.InputError: ...schedules: the current version of kth-sp2 has none; ...
    """
    from pipelines.lake.places import home
    from pipelines.lake.tables import Lake

    frame, metadata = Lake(home() / "lake", system=system).read(name, trace)
    frame.attrs.update(metadata)
    return frame


def schedulers() -> list[str]:
    """Return the algorithms and orders of which a scheduler's name is made.

    A name is ``[ORDER-]ALGORITHM[-BACKFILLORDER]``, as ``SAF-EASY-SPF``; InputError for an unknown one names the most similar.

    >>> schedulers()[:4]
    ['EASY', 'JustBF', 'Conservative', 'Harm']
    >>> simulate("kth-sp2", "EASSY")
    Traceback (most recent call last):
    features.errors.InputError: unknown scheduler 'EASSY'; did you mean EASY?
    """
    from sim.kernel.orders import ORDERS
    from sim.schedulers.names import ALGORITHMS

    return [*ALGORITHMS, *ORDERS, "SCORE"]


def predictors() -> list[str]:
    """Return the names of predictors; most take options in brackets.

    >>> predictors()[:3]
    ['requested', 'clairvoyant', 'last2']
    """
    from models.runtime.names import NAMES

    return list(NAMES)


def read(
    trace: Trace, *, procs: int | None = None, from_s: float | None = None, to_s: float | None = None, **settings: Any
) -> CleanTrace:
    """Read and clean a trace; report dropped and altered jobs on standard error.

    ``from_s`` and ``to_s``, seconds of the trace, keep only jobs submitted at or after the first and before the second.
    ``settings`` are those of :class:`sim.settings.TraceSettings`, such as ``timezone`` and ``missing_request``.

    >>> kth = read("kth-sp2")
    >>> kth.name, kth.procs, len(kth.jobs)
    ('kth-sp2', 100, 28467)
    >>> len(read(kth, to_s=30 * 86_400).jobs)
    2013
    >>> import pandas as pd
    >>> read(pd.DataFrame({"submit_s": [0, 1], "runtime_s": [9, 9], "procs": [1, 2], "requested_s": [20, 20]}), procs=2).jobs_read
    2
    """
    from dataclasses import replace

    from features.errors import InputError, unknown
    from features.jobs.columns import column, held
    from sim.settings import TraceSettings

    settings |= {"procs": procs}
    _check({"from_s": from_s, "to_s": to_s}, plot)
    workload, _ = _on(trace, settings, compiles=False)
    if settings:
        raise unknown("setting", min(settings), TraceSettings.model_fields)
    submit = column(held(workload), "submit_s")
    within = (submit >= (submit.min() if from_s is None else from_s)) & (submit < (submit.max() + 1 if to_s is None else to_s))
    if not within.any():
        raise InputError(f"{workload.name}: no job is submitted between seconds {from_s} and {to_s} of the trace")
    return workload if within.all() else replace(workload, jobs=workload.jobs[within].reset_index(drop=True))


def simulate(trace: Trace, scheduler: str = "EASY", predictor: Any = "requested", **settings: Any) -> Schedule:
    """Schedule a trace; ``settings`` are those of :func:`sim.simulate`, ``machine`` a file.

    ``predictor`` may also be ``registry:NAME``, and ``scheduler`` may contain ``POLICY(...)``.

    >>> round(qc.evaluate(simulate("kth-sp2", "EASY-SJBF", "last2", correction="tsafrir"))["mean_bounded_slowdown"], 2)
    63.33
    """
    import sim
    from pipelines.lake.registry import resolved

    workload, on = _on(trace, settings)
    _check(settings, sim.simulate)
    return sim.simulate(workload.jobs, scheduler=resolved(scheduler), predictor=_fitted(predictor, workload), **on, **settings)


def decide(trace: Trace, policy: Decides, **settings: Any) -> Schedule:
    """Schedule a trace by ``policy(view)``, which returns the jobs to start now.

    ``view`` is a :class:`View`; ``settings`` are those of :func:`sim.own.decide.decide`, ``procs`` and ``machine``, a file.

    >>> def narrowest_first(view):
    ...     return [job for job in sorted(view.queue, key=lambda job: job.procs) if job.procs <= view.free][:1]
    >>> decide("kth-sp2", narrowest_first).label
    'narrowest_first / requested'
    """
    import sim
    from pipelines.cli.progress import shown_progress

    workload, on = _on(trace, settings)
    size, clusters = on.pop("procs"), on.pop("machine")
    settings["predictor"] = _fitted(settings.get("predictor", "requested"), workload)
    with shown_progress("jobs have ended", "deciding", after_s=1.5) as progress:
        return sim.decide(workload.jobs, clusters or size, policy, **on, **settings, progress=progress)


def recorded(trace: Trace, *, procs: int | None = None) -> Schedule:
    """Return the schedule that a trace records.

    >>> round(qc.evaluate(recorded("kth-sp2"))["mean_wait_s"])
    15291
    """
    import sim

    workload, _ = _on(trace, {"procs": procs})
    return sim.recorded(workload.jobs, workload.procs, workload.name, workload.generated)


def write(what: Schedule | ScheduleComparison | Results, path: str | Path) -> None:
    """Write a schedule as Parquet, or a comparison or campaign in the format of ``path``'s ending.

    Of a comparison and of a campaign ``.md`` has tables with intervals, a campaign's of each trace and then pooled; ``.csv`` and
    ``.parquet`` are all rows.

    >>> kth = read("kth-sp2")
    >>> write(simulate(kth), "easy.parquet")
    >>> write(simulate(kth), "easy.txt")
    Traceback (most recent call last):
    features.errors.InputError: path easy.txt: schedules are written as Parquet: its name must end in .parquet
    >>> write(campaign(kth, ["EASY", "EASY-SJBF"], replicates=2, shake_s=60), "table.md")
    """
    from pipelines.lake.files import check_ending, write_schedules
    from pipelines.report.comparison import ScheduleComparison, write_comparison
    from sim.campaigns.results import Results
    from sim.schedule import checked

    if isinstance(what, (ScheduleComparison, Results)):
        write_comparison(Path(path), what)
        return
    schedule = checked(what)
    check_ending("path", Path(str(path)))
    write_schedules(Path(path), [schedule], {"trace": schedule.trace, "generated": schedule.generated})


def compare(schedules: Sequence[Schedule], baseline: tuple[str, str] | None = None, **settings: Any) -> ScheduleComparison:
    """Compare schedules of the same jobs with the first, by weeks and replicates.

    Schedules of one policy with other seeds are its replicates. The rows are those of :func:`sim.metrics.comparison.compare`;
    shown, they are a table of changes. ``verdict`` says in words which is best, or which metrics are missing for it.

    >>> both = compare([simulate("kth-sp2", name) for name in ("EASY", "EASY-SJBF")])
    >>> both[both["metric"] == "mean_bounded_slowdown"][["scheduler", "relative"]].round(3).values.tolist()
    [['EASY', 0.0], ['EASY-SJBF', -0.251]]
    """
    from features.errors import InputError, shown
    from pipelines.report.comparison import ScheduleComparison
    from sim.metrics import comparison, verdict
    from sim.schedule import checked

    schedules = [checked(each) for each in (schedules if isinstance(schedules, (list, tuple)) else [schedules])]
    _check(settings, comparison.compare)
    if isinstance(settings.get("metrics"), str):
        settings["metrics"] = [settings["metrics"]]
    base = baseline or next(((each.scheduler, each.predictor) for each in schedules), ("EASY", "requested"))
    if isinstance(base, str) or len(base) != 2:
        raise InputError(f"baseline {shown(base)}: must be a scheduler and a predictor, as in ('EASY', 'requested')")
    table = ScheduleComparison(comparison.compare(schedules, base, **settings))
    first = schedules[0]
    table.attrs["generated"] = any(each.generated for each in schedules)
    table.attrs["title"] = f"{first.trace or 'a table of jobs'}: {len(first.jobs):,} jobs on {first.procs:,} processors"
    absent = [name for name in verdict.WEIGHED if name not in set(table["metric"])]
    table.attrs["verdict"] = f"No verdict without {', '.join(absent)}." if absent else verdict.verdict(table, base).text
    return table


def campaign(
    trace: Trace | Sequence[Trace],
    schedulers: Sequence[str | Decides] = ("EASY",),
    predictors: Sequence[Any] = ("requested",),
    *,
    load: float | Sequence[float] = 1.0,
    **settings: Any,
) -> Results:
    """Simulate all combinations, on every window and seed; one row per simulation.

    A scheduler may be a policy of :func:`decide`, with its own name: it gets the same windows and shaken submissions as the
    others. A class of policies makes one for each simulation; an object is copied. ``settings`` are those of
    :class:`sim.settings.Campaign`, ``procs`` and ``machine``. The result's ``summary`` compares the policies with the first, over
    windows and replicates, on each trace; for several traces ``pooled`` does so over all of them
    (:func:`sim.campaigns.results.over_traces`). ``verdict`` says in words which is best.

    >>> made = campaign("kth-sp2", ["EASY", "EASY-SJBF"], windows="months", replicates=2, shake_s=60)
    >>> len(made), len(made.summary)
    (44, 20)
    >>> made.verdict
    'EASY-SJBF is not better than EASY in all that is weighed. ...
    >>> campaign("kth-sp2", load=(1.0, 1.15))["trace"].tolist()
    ['kth-sp2', 'kth-sp2 (load 1.15)']
    """
    import pandas as pd

    import sim
    from features.errors import InputError
    from pipelines.lake.registry import resolved
    from sim.campaigns.results import Results
    from sim.own.decide import decider

    asked = [schedulers] if isinstance(schedulers, str) or not isinstance(schedulers, Iterable) else schedulers
    yours = [decider(each) for each in asked if not isinstance(each, str)]
    names = tuple(resolved(each) if isinstance(each, str) else decider(each)[0] for each in asked)
    tables, suite = [], dict[str, str]()
    traces: Sequence[Any] = trace if isinstance(trace, (list, tuple)) else [trace]
    loads: list[Any] = [*load] if isinstance(load, Iterable) and not isinstance(load, str) else [load]
    if not traces or not loads:
        raise InputError("a campaign needs at least one trace and one load")
    for each in traces:
        given = dict(settings)
        workload, on = _on(each, given)
        fitted = tuple(_fitted(each, workload) for each in ([predictors] if isinstance(predictors, str) else predictors))
        for factor in loads:
            one = sim.Campaign(schedulers=names, predictors=fitted, load=factor, **given)
            if (label := one.submissions.label(workload.name)) in suite:
                raise InputError(
                    f"each trace is taken once, and two are called {label}: dataclasses.replace(trace, name=...) names one"
                )
            suite[label] = one.submissions.label("all traces")
            tables.append(sim.run_campaign(workload.jobs, one, deciders=dict(yours), **on))
    return Results.of(pd.concat(tables, ignore_index=True), one.windows, suite)


def results(path: str | Path) -> Results:
    """Return a campaign's results from the Parquet file that ``queuecast campaign`` wrote, compared as by :func:`campaign`.

    Raises InputError for any other file.

    >>> write(simulate("kth-sp2"), "schedule.parquet")
    >>> results("schedule.parquet")
    Traceback (most recent call last):
    features.errors.InputError: schedule.parquet: holds schedules, not campaign
    """
    from pipelines.lake.files import read_parquet
    from pipelines.studies.campaigns import KIND
    from sim.campaigns.results import Results

    rows, metadata = read_parquet(path, kind=KIND)
    return Results.of(rows, (metadata.get("campaigns") or [metadata])[0]["windows"])


def plot(
    what: Schedule | pd.DataFrame,
    from_s: float | None = None,
    to_s: float | None = None,
) -> Figure:
    """Draw a schedule between two seconds of the trace, or what another function returned.

    Notebooks show the figure; ``savefig`` keeps it. A schedule gives its jobs by processor, coloured by wait, and the number that
    wait; a table of :func:`compare` or :func:`campaign` changes, and of :func:`whatif` candidates.

    >>> kth, other = simulate("kth-sp2"), simulate("kth-sp2", "EASY-SJBF")
    >>> plot(kth, 20_000_000, 20_200_000).savefig("gantt.png")
    >>> plot(kth, 1, 2)
    Traceback (most recent call last):
    features.errors.InputError: EASY / requested: no job runs between seconds 1 and 2 of the trace
    >>> plot(compare([kth, other])).savefig("changes.svg")
    """
    import pandas as pd

    from features.errors import InputError
    from pipelines.report import plots, what_if
    from sim.campaigns.results import Results, by_setting
    from sim.metrics.names import READ_FIRST
    from sim.metrics.verdict import policy_labels
    from sim.schedule import checked

    _check({"from_s": from_s, "to_s": to_s}, plot)
    if not isinstance(what, pd.DataFrame):
        return plots.gantt(checked(what), from_s, to_s)
    generated = what.attrs.get("generated", False)
    if isinstance(what, Results):
        changes = by_setting(what.overall)
        if len(changes) > 1:
            raise InputError(
                "a campaign is drawn of one trace, load, semantics, starvation and tau, or of several traces under one load"
            )
        what = changes[0]
    if {"candidate", "verdict"} <= set(what):
        return what_if.figure_of_candidates(what)
    if not {"metric", "relative", "low", "high"} <= set(what):
        raise InputError("a table that compare, campaign or whatif did not return cannot be drawn")
    if absent := [name for name in READ_FIRST if name not in set(what["metric"])]:
        raise InputError(f"the figure shows {', '.join(READ_FIRST)}: the comparison lacks {', '.join(absent)}")
    return plots.figure_of_changes(what, list(policy_labels(what)), generated, None, READ_FIRST)


def whatif(accounting: str | Path, **settings: Any) -> pd.DataFrame:
    """Return which changes of a site lower waits, by how much: a row per candidate and metric.

    As ``queuecast whatif``; ``settings``: :class:`pipelines.studies.questions.WhatIfSettings`. ``attrs["answer"]`` is in words.

    >>> whatif("accounting.txt", machine="site", replicate=3)
    Traceback (most recent call last):
    features.errors.InputError: replicate is unknown; did you mean replicates?
    """
    from pandas import DataFrame

    from pipelines.cli.site import answered
    from pipelines.report.what_if import answer
    from pipelines.studies.questions import WhatIfSettings
    from pipelines.studies.what_if import records

    comparison = answered(WhatIfSettings(accounting=Path(str(accounting)), **settings))
    table = DataFrame(records(comparison))
    table.attrs["answer"] = "\n".join(answer(comparison))
    return table


def when(trace: str | Path, queue: str | Path, **settings: Any) -> pd.DataFrame:
    """Return when the waiting jobs of a queue start, and those of ``jobs`` would: a row each.

    As ``queuecast when``; ``settings``: :class:`pipelines.studies.questions.WhenSettings`. ``attrs["by"]`` names the method.

    >>> when("kth-sp2", "queue.csv", id="7")
    Traceback (most recent call last):
    features.errors.InputError: id is unknown; did you mean ids?
    """
    from pandas import DataFrame

    from pipelines.cli.when_answers import answered
    from pipelines.studies.questions import WhenSettings

    answers = answered(WhenSettings(trace=str(trace), queue=Path(str(queue)), **settings))
    table = DataFrame(answers.records)
    table.attrs["by"] = answers.by
    return table


def _check(settings: dict[str, Any], function: Callable[..., Any]) -> None:
    """Raise InputError for a setting that ``function`` lacks, or text instead of a number."""
    from inspect import signature
    from numbers import Real

    from features.errors import InputError, check_names, shown

    check_names("setting", settings, signature(function).parameters)
    for name in settings.keys() & {"seed", "shake_s", "load", "squeeze", "starvation_s", "confidence", "tau_s", "from_s", "to_s"}:
        if isinstance(settings[name], bool) or not isinstance(settings[name], (Real, type(None))):
            raise InputError(f"{name} must be a number, not {shown(settings[name])}")


def _on(trace: Trace, settings: dict[str, Any], *, compiles: bool = True) -> tuple[CleanTrace, dict[str, Any]]:
    """Return a trace and its machine and clock; remove their settings from ``settings``.

    The second result is a dictionary of arguments of :func:`sim.simulate`.
    """
    from dataclasses import replace

    from features import CleanTrace, InputError, Trace
    from features.deferred import pd
    from features.jobs.schema import OVERRUN
    from pipelines.cli.options import load, load_machine, tell_cleaning
    from pipelines.readers.read import cleaned_for
    from sim.settings import Campaign, TraceSettings

    named = isinstance(trace, (str, Path)) or not isinstance(trace, (CleanTrace, pd.DataFrame))
    of_traces = {name: settings.pop(name) for name in (*TraceSettings.model_fields, "machine") if name in settings}
    machine_file = of_traces.get("machine")
    kind = TraceSettings if machine_file is None else Campaign  # which imports the simulator to check itself
    of_traces |= {"trace": str(trace) if named else ""}
    asked = kind(**{name: value for name, value in of_traces.items() if name in kind.model_fields})
    if isinstance(trace, CleanTrace):
        workload = trace
        if machine_file is not None and (machine := load_machine(asked)) is not None:
            workload = replace(trace, procs=machine.procs, machine=machine)
    elif not named:
        from features import jobs_from

        machine = None if machine_file is None else load_machine(asked)
        if {OVERRUN, "runtime_s"} <= set(trace):  # cleaned before: restore what was cut, to be cut again
            trace = trace.assign(runtime_s=trace["runtime_s"] + trace[OVERRUN]).drop(columns=OVERRUN)
        workload = cleaned_for(machine, Trace("jobs", jobs_from(trace)), asked.missing_request or "drop", asked.procs)
        if workload.touched():
            tell_cleaning(workload)
    else:
        workload = load(asked, compiles=compiles)
    if asked.procs not in (None, workload.procs):
        raise InputError(f"{workload.name} was read for {workload.procs:,} processors, not {asked.procs:,}: read it with those")
    on = {name: getattr(workload, name) for name in ("procs", "machine", "clock", "generated")}
    return workload, on | {"trace": workload.name}


def _fitted(predictor: Any, trace: CleanTrace) -> Any:
    from pipelines.cli.simulation import fitted

    return fitted(predictor, trace) if isinstance(predictor, str) else predictor
