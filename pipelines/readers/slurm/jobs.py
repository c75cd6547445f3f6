"""Requests of Slurm jobs, from accounting, for a replay of the site.

Their columns are those of :data:`sim.slurm.requests.COLUMNS`. Options that accounting keeps in no column, such as the
throttle of an array or a dependency, come from SubmitLine, if the file has it. Otherwise the time at which a job became
eligible stands for what held it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import BEHIND, COPY
from features.jobs.damage import LEFT_OUT, file_clock, repeats
from pipelines.readers.delimited import AccountingTable
from pipelines.readers.localtime import MISSING_TIME
from pipelines.readers.slurm.as_json import as_table, is_json
from pipelines.readers.slurm.lines import ABSENT, NAMES, JobColumns, read_lines
from pipelines.readers.slurm.requests import (
    after_of,
    field_of,
    least_limit,
    nodes_and_memory,
    options_of,
    whole_or_0,
    with_type,
    words_of,
)
from pipelines.readers.slurm.sacct import FREE_TEXT
from pipelines.readers.slurm.times import tasks_in
from pipelines.readers.text import counted, load, some
from sim.slurm.nodesets import Suits, suitable
from sim.slurm.releases import SEVERAL_QOS
from sim.slurm.site import UNLIMITED, Site

_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?(?:\+(\d{1,5}))?")
_NOT_MODELLED = ("switches", "contiguous", "spread-job", "prefer")
_LATE_S = 65
"""Max seconds until a job with met dependencies is eligible: the next full pass, at most a minute later, notices it."""
_NICE = "100"
"""Value of --nice if none is given."""
_REQUEUED = ("PREEMPTED", "NODE_FAIL", "REQUEUED")
_OPEN = ("RUNNING", "COMPLETING", "SUSPENDED")
_STOPPED = (*_REQUEUED, *_OPEN)
"""States after which the full runtime of a job is unknown: its run was stopped, or goes on."""
_RUN = ["job_id", "submit_s", "user"]
"""Columns that identify a run of a job."""
_REUSED = 10**10
"""Added to the group of a job whose number another job had before: beyond all numbers."""
_KILLED = ("TIMEOUT", "CANCELLED", "PREEMPTED", "NODE_FAIL", "REQUEUED")
"""States of jobs that slurmctld has ended."""
_OF_RUN = ["submit_s", "eligible_s", "cancel_s", "start_s", "end_s", "started_by", "nodes", "priority"]
"""What a later run of a requeued job has of its own; it is submitted when it is requeued."""
_WITHDRAWN_BY = ("name", "qos", "partition", "account", "user")
"""Columns by which a command may choose the jobs."""
_FEWEST_WITHDRAWN = 2
"""Min number of jobs or arrays that one command cancels."""


class SlurmJobs(NamedTuple):
    """Jobs in order of submission, and notes of the reader.

    ``table`` has the columns of a replay; ``number``, the ``job_id`` in canonical tables; and, as recorded, ``start_s``
    and ``end_s`` (Unix seconds), ``started_by`` (main, backfill, submit, or ``""``), ``nodes`` and ``priority``, of a
    requeued job's first run. A job that never started has -1; in replays too, it waits until it is cancelled.
    ``lacking`` are columns that the file does not have, of :data:`pipelines.readers.slurm.lines.ABSENT`. ``later`` are
    the later runs of requeued jobs, with what they have of their own: :data:`_OF_RUN`.
    """

    table: pd.DataFrame
    notes: tuple[str, ...]
    name: str
    lacking: tuple[str, ...] = ()
    later: pd.DataFrame | None = None

    @property
    def runs(self) -> pd.DataFrame:
        """Return the table with a row for each later run, in order of submission."""
        if self.later is None or not (present := self.later["job_id"].isin(self.table["job_id"])).any():
            return self.table
        own = self.later[present].reset_index(drop=True)
        later = self.table.set_index("job_id").loc[own["job_id"]].reset_index()
        later[own.columns] = own
        return pd.concat([self.table, later]).sort_values("submit_s", kind="stable", ignore_index=True)


def read_slurm_jobs(path: str | Path, site: Site, timezone: str = "UTC") -> SlurmJobs:
    """Read the jobs of ``path``, output of ``sacct``, for a replay of ``site``.

    Times are local to ``timezone``. Raises InputError for missing columns that a replay needs, or a line that cannot be
    read.
    """
    source, notes, unmodelled = load(path), list[str](), Counter[str]()
    wanted = {name for names in NAMES.values() for name in names} | {"cluster", "jobidraw"}
    table = AccountingTable(as_table(source), wanted, free=FREE_TEXT)
    lines = read_lines(table, "UTC" if is_json(source) else timezone, notes)
    rows = [row for at in np.flatnonzero(lines.ran | lines.waited) for row in _rows(lines, int(at), site, unmodelled)]
    jobs, later = _one_row_a_job(_each_row_once(pd.DataFrame(rows), notes), notes)
    jobs = _with_withdrawn(_with_waiting_components(jobs))
    together = jobs["het"][jobs["het"] >= 0]
    if together.duplicated().any():
        notes.append(f"Components of heterogeneous jobs, which start together: {len(together):,} of {together.nunique():,} jobs.")
    jobs = _estimate_unknown(_with_holds(_with_singletons(_limited(jobs, site))), notes)
    notes += _unsuited(jobs, site)
    notes += [f"Jobs with the option {name}, which is not modelled: {count:,}." for name, count in sorted(unmodelled.items())]
    if table.set_aside:
        where = some([line for line, _ in table.set_aside])
        notes.append(f"Lines that cannot be split into the header's columns are left out: {len(table.set_aside):,} ({where}).")
    if "MEMORY" in site.settings.get("selecttypeparameters", "").upper():
        none = int(((jobs["memory_node"] == 0) & (jobs["memory_cpu"] == 0)).sum())
        notes += [f"Jobs that state no memory, which the site counts: {none:,}. They take none in replays."] * bool(none)
    may_lack = ["SubmitLine"] if is_json(source) else [*ABSENT]  # JSON has a column if a job has a value
    lacking = [name for name in may_lack if table.find(*NAMES.get(name.lower(), (name.lower(),))) is None]
    notes += [ABSENT[name].note(name) for name in lacking]
    return SlurmJobs(jobs, tuple(notes), source.name, tuple(lacking), later)


def _rows(lines: JobColumns, at: int, site: Site, unmodelled: Counter[str]) -> list[dict[str, Any]]:
    """Return a line as rows of a replay, one for each array task that waits in it."""
    text = lines.texts["jobid"][at]
    tasks = tasks_in(text)
    if tasks is None:
        return [_row(lines, at, text, site, unmodelled)]
    array = text.partition("_")[0]
    first, *others = (number for numbers in tasks[0] for number in numbers)
    row = _row(lines, at, f"{array}_{first}", site, unmodelled)
    return [row, *({**row, "job_id": f"{array}_{number}", "task": number} for number in others)]


def _row(lines: JobColumns, at: int, job_id: str, site: Site, unmodelled: Counter[str]) -> dict[str, Any]:
    """Return the job of a line as columns of a replay; count options in ``unmodelled``."""
    row = {name: values[at] for name, values in lines.texts.items()} | {"jobid": job_id}
    match = _ID.fullmatch(row["jobid"])
    if match is None:
        raise lines.table.error(lines.columns["jobid"], int(lines.line[at]), "is not a number of a job or a task")
    command = row.get("submitline", "")
    components = 1 + (words_of(command).count(":") if " : " in command else 0)
    # which of the components that wait a row is, only its own columns say
    options = {} if components > 1 and not match[3] else options_of(command, int(match[3] or 0))
    unmodelled.update(f"--{name}" for name in options.keys() & set(_NOT_MODELLED))
    partition = options.get("partition") or row["partition"]
    if not set(partition.split(",")) <= set(site.partitions):
        partition = row["partition"]
    limit_s = UNLIMITED if np.isnan(lines.limit[at]) else int(lines.limit[at])
    cpus, qos = int(lines.cpus[at]), row["qos"] or "normal"
    return {
        "job_id": row["jobid"],
        "number": int(lines.number[at]),
        "group": int(match[1]),
        "task": int(match[2]) if match[2] else -1,
        **_happened(lines, at, row),
        "held": "hold" in options or row.get("reason", "").startswith("JobHeld"),
        "at_once": "hold" in options or "begin" in options,
        "limit_s": limit_s,
        "least_limit_s": least_limit(options, limit_s),
        "licenses": options.get("licenses", ""),
        "user": row["user"],
        "account": row["account"],
        "partition": partition,
        "qos": qos,
        "other_qos": _other_qos(qos, options, site),
        "het": int(match[1]) if match[3] else -1,
        "components": components,
        "cpus": max(cpus, 1),
        **nodes_and_memory(row, options, cpus, site, partition.split(",")[0]),
        "features": with_type(field_of(row, "constraints"), row, options, site),
        "nodelist": options.get("nodelist", ""),
        "exclude": options.get("exclude", ""),
        "name": options.get("job-name", ""),
        "singleton": "singleton" in options.get("dependency", ""),
        "exclusive": "exclusive" in options,
        "throttle": whole_or_0(options.get("array", "").partition("%")[2]),
        "after": after_of(options),
        "nice": whole_or_0(options.get("nice", "0") or _NICE),
        "reservation": options.get("reservation", row.get("reservation", "")),
    }


def _happened(lines: JobColumns, at: int, row: dict[str, str]) -> dict[str, Any]:
    """Return what became of a line's job; its runtime is -1 if it is not known."""
    ran, elapsed, state = bool(lines.ran[at]), lines.elapsed[at], str(row["state"])
    submit_s, start_s, end_s = (int(times[at]) for times in (lines.times.submit, lines.times.start, lines.times.end))
    flags = row.get("flags", "").lower()
    return {
        "submit_s": submit_s,
        "eligible_s": int(lines.eligible[at]) if lines.eligible[at] > submit_s + 1 else -1,
        "runtime_s": int(elapsed) if ran and not state.startswith(_STOPPED) else -1,
        "killed": state.startswith(_KILLED),
        "requeued": state.startswith(_REQUEUED),
        "open": state.startswith(_OPEN),
        "elapsed_s": int(elapsed) if ran else 0,
        "cancel_s": end_s if not ran and end_s != MISSING_TIME else -1,
        "start_s": start_s if ran else -1,
        "end_s": start_s + int(elapsed) if ran else -1,
        "started_by": next((by for by in ("main", "backfill", "submit") if f"sched{by}" in flags), ""),
        "nodes": row.get("nodelist", ""),
        "priority": whole_or_0(row.get("priority", "")),
    }


def _limited(jobs: pd.DataFrame, site: Site) -> pd.DataFrame:
    """Give jobs without a limit the longest of their partitions, or a year."""
    parts = site.partitions
    longest = {
        text: max((parts[name].max_s for name in text.split(",") if name in parts), default=UNLIMITED)
        for text in jobs["partition"].unique()
    }
    unlimited, most = jobs["limit_s"] >= UNLIMITED, jobs["partition"].map(longest).clip(upper=365 * 86_400)
    limit_s = jobs["limit_s"].mask(unlimited, most)
    return jobs.assign(limit_s=limit_s, least_limit_s=np.minimum(jobs["least_limit_s"], limit_s))


def _each_row_once(runs: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Drop rows that repeat a run, as where exports overlap, and runs long before all others."""
    ended_elsewhere = runs["open"] & ~runs.groupby(_RUN)["open"].transform("all")
    ended = runs[~ended_elsewhere]
    once = ended[~repeats(ended, _RUN)]
    counted(notes, f"Rows that repeat a run, as where exports overlap, are left out ({COPY})", len(runs) - len(once))
    runs = once
    stay_s = (runs["end_s"] - runs["submit_s"]).clip(lower=0).to_numpy(np.float64)
    # Slurm's clocks tick through every silence: years of them take minutes, however small the file.
    first, _ = file_clock(runs["submit_s"].to_numpy(np.float64), stay_s, LEFT_OUT)
    behind = runs["submit_s"] < first
    counted(notes, f"Jobs submitted long before all others are left out ({BEHIND})", behind.to_numpy(bool))
    return runs[~behind]


def _one_row_a_job(runs: pd.DataFrame, notes: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Merge the rows of a job's runs into one row per job, in order of submission; return also later runs.

    It is the row of the first run, with the runtime and the cancellation of the last; ``end_s`` stays the first run's.
    A run follows an earlier one of its number and user that was stopped. Other rows of the same number are jobs of
    their own, whose ids end in ``#2`` and so on: tasks of an array that share its number or, of another submission or
    user, uses of it again.
    """
    runs = runs.sort_values(["submit_s", "group", "task"], kind="stable", ignore_index=True)
    follows = runs.groupby(["job_id", "user"], sort=False)["requeued"].shift(fill_value=False)
    again = ~follows & ~runs.duplicated(_RUN)
    uses = pd.DataFrame({"job": ~follows, "number": again}).groupby(runs["job_id"]).cumsum().mask(follows)
    uses = uses.groupby([runs["job_id"], runs["user"]]).ffill().astype(np.int64)
    counted(
        notes,
        "Numbers that Slurm used again for another job, which is called NUMBER#2 here",
        (again & (uses["number"] > 1)).to_numpy(bool),
    )
    runs = runs.drop(columns=["requeued", "open"])
    later = uses["job"] > 1
    runs.loc[later, "job_id"] += "#" + uses.loc[later, "job"].astype(str)
    runs["group"] += _REUSED * (uses["number"] - 1)
    of_job = runs.groupby("job_id", sort=False)
    first = of_job.head(1).set_index("job_id")
    last = of_job.tail(1).set_index("job_id").reindex(first.index)
    first["requeues"] = (of_job.size() > 1).reindex(first.index)
    first[["runtime_s", "cancel_s", "killed"]] = last[["runtime_s", "cancel_s", "killed"]]
    first["elapsed_s"] = of_job["elapsed_s"].max().reindex(first.index)
    later_runs = runs.loc[of_job.cumcount() > 0, ["job_id", *_OF_RUN]]
    return first.reset_index()[["requeues", *runs.columns]], later_runs


def _with_waiting_components(jobs: pd.DataFrame) -> pd.DataFrame:
    """Name the heterogeneous jobs of components that never started: sacct numbers these as if they were jobs.

    Their numbers follow each other, as many as the command names components.
    """
    waiting = (jobs["components"] > 1) & (jobs["het"] < 0) & (jobs["task"] < 0)
    place = jobs[waiting].groupby(["submit_s", "user", "components"])["group"].rank(method="first").astype(np.int64) - 1
    first = jobs["group"][waiting] - place % jobs["components"][waiting]
    jobs.loc[waiting, "het"] = jobs.loc[waiting, "group"] = first
    return jobs.drop(columns="components")


def _with_singletons(jobs: pd.DataFrame) -> pd.DataFrame:
    """Let a singleton wait for its user's and name's previous singleton and the jobs after it."""
    after, since = dict[int, str](), dict[tuple[str, str], list[int]]()
    for group, user, name, alone, waits in jobs[["group", "user", "name", "singleton", "after"]].itertuples(index=False):
        if group in after:
            continue
        earlier = since.setdefault((user, name), [])
        after[group] = ",".join(filter(None, [waits, *map(str, earlier)])) if alone else waits
        since[user, name] = [group] if alone else [*earlier, group]  # jobs before a singleton have ended when it has
    return jobs.assign(after=jobs["group"].map(after)).drop(columns=["name", "singleton"])


def _unsuited(jobs: pd.DataFrame, site: Site) -> list[str]:
    """Return a note on jobs that no node suits; raise InputError for unreadable node lists."""
    first, count = dict[Suits, str](), dict[Suits, int]()
    for job, *wish in jobs[["job_id", "features", "nodelist", "exclude", "memory_node"]].itertuples(index=False):
        key = Suits(*wish)
        first.setdefault(key, job)
        count[key] = count.get(key, 0) + 1
    none = 0
    for key, job in first.items():
        try:
            none += 0 if suitable(site, key) else count[key]
        except InputError as error:
            raise InputError(f"job {job}: {error}") from None
    return [f"Jobs that no node of the site suits: {none:,}. They never start in replays."] * bool(none)


def _with_holds(jobs: pd.DataFrame) -> pd.DataFrame:
    """Drop eligible times that dependencies or throttles explain; add ``held_s``.

    ``held_s`` is the time from which a job was held, 0 if always, as if submitted with a hold or a begin time, -1 if
    never. Other jobs released in the same second are taken as held together, since the last of them was submitted.
    """
    eligible = jobs["eligible_s"].where(jobs["throttle"] == 0, jobs.groupby("group")["eligible_s"].transform("min"))
    ends = jobs.groupby("group")["end_s"].max().to_dict()
    met = [max((ends.get(int(group), 0) for group in text.split(",")), default=0) if text else -1 for text in jobs["after"]]
    eligible = eligible.mask((jobs["after"] != "") & (eligible <= np.array(met) + _LATE_S), -1)
    late = (eligible >= 0) & jobs["held"] & ~jobs["at_once"]
    together = jobs["group"].where(late).groupby(eligible).transform("nunique") > 1
    since = jobs["submit_s"].where(late, 0).groupby(eligible).transform("max").where(late & together, 0)
    return jobs.assign(eligible_s=eligible, held_s=since.where(jobs["held"], -1)).drop(columns=["held", "at_once"])


def _estimate_unknown(jobs: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Fill in unknown runtimes: the median share of the limit, but more than the job has run."""
    recorded = jobs[jobs["runtime_s"] >= 0]
    share = float((recorded["runtime_s"] / recorded["limit_s"]).median()) if len(recorded) else 0.5
    unknown = jobs["runtime_s"] < 0
    guess = np.maximum(jobs["elapsed_s"] + 1, np.minimum(jobs["limit_s"] * share, 365 * 86_400)).round().astype(np.int64)
    for name, count in (
        ("were stopped, or still ran", int((unknown & (jobs["start_s"] >= 0)).sum())),
        ("never started, and wait until they were cancelled", int((unknown & (jobs["start_s"] < 0)).sum())),
    ):
        if count:
            notes.append(f"Jobs that {name}: {count:,}. If a replay runs or starts them, they run for {share:.0%} of their limits.")
    return jobs.assign(runtime_s=np.where(unknown, guess, jobs["runtime_s"])).drop(columns="elapsed_s")


def _other_qos(qos: str, options: dict[str, str], site: Site) -> str:
    """Return the QOS besides ``qos`` with which a job may run, where the release lets it ask for several."""
    named = options.get("qos", "").split(",")
    several = site.known_release >= SEVERAL_QOS and qos in named
    return ",".join(dict.fromkeys(name for name in named if name in site.qos and name != qos)) if several else ""


def _with_withdrawn(jobs: pd.DataFrame) -> pd.DataFrame:
    """Add when jobs are cancelled with all others of their kind, if they still wait.

    A command such as ``scancel --state=PENDING`` leaves running jobs alone. In a replay other jobs wait then, and it
    meets these.

    ``withdrawn_s`` is a Unix second, -1: never. At least two jobs were cancelled together, over seconds that follow
    each other, and no other job of the kind went on waiting. A kind is the whole queue, or the jobs of one name, QOS,
    partition, account or user.
    """
    submit_s, start_s, gone_s = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "start_s", "cancel_s"))
    waited = (start_s < 0) & (gone_s >= 0)
    left_s = np.where(start_s >= 0, start_s, np.where(gone_s >= 0, gone_s, np.iinfo(np.int64).max))
    codes = [np.zeros(len(jobs), np.int64), *(pd.factorize(jobs[name])[0] for name in _WITHDRAWN_BY)]
    withdrawn_s = np.full(len(jobs), -1)

    cancelled_s = np.sort(gone_s[waited])
    seconds = np.unique(cancelled_s)
    for together in np.split(seconds, np.flatnonzero(np.diff(seconds) > 1) + 1) if len(seconds) else []:
        first, last = int(together[0]), int(together[-1])
        if np.ptp(np.searchsorted(cancelled_s, (first, last + 1))) < _FEWEST_WITHDRAWN:
            continue
        waiting = np.flatnonzero((submit_s < first) & ((left_s > last) | (waited & (gone_s >= first))))
        cancelled = waited[waiting] & (gone_s[waiting] <= last)
        groups = jobs["group"].to_numpy()[waiting]
        for code in codes:
            of_waiting = code[waiting]
            for kind in np.unique(of_waiting[cancelled]):
                own = of_waiting == kind
                if cancelled[own].all() and len(np.unique(groups[own])) >= _FEWEST_WITHDRAWN:
                    withdrawn_s[(code == kind) & (submit_s < first) & (withdrawn_s < 0)] = first

    return jobs.assign(withdrawn_s=withdrawn_s)
