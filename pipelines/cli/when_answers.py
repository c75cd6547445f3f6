"""Answer when the jobs of a queue start, and what changes would start them earlier."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import click
import numpy as np
import pandas as pd

from features import limits
from features.errors import InputError, shown
from models.packed.site_names import as_stored
from models.packed.start_predictor import EASY, SLURM
from pipelines.cli import note
from pipelines.cli.compiling import announce_compilation
from pipelines.cli.site import load_site_jobs
from pipelines.lake.places import home
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake, read_features
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.delimited import duration
from pipelines.readers.localtime import to_unix
from pipelines.readers.queue_file import OF_SLURM, named_second, read_queue
from pipelines.readers.slurm import COMMAND
from pipelines.report.site import sentence_of_cause, sentences_of, sentences_of_places
from pipelines.report.table import Table
from pipelines.report.table import duration as words
from pipelines.studies.questions import WhenSettings
from pipelines.studies.when import Record, clock_of, like, past_limits, queue_of, record_of
from sim.site.ahead import SiteAhead
from sim.starts.closings import closed

if TYPE_CHECKING:
    from features.jobs.cleaning import CleanTrace
    from models.packed.start_predictor import StartModel
    from pipelines.readers.queue_file import QueueFile
    from sim.site.queue_ahead import PredictedStart, TraceQueue

_LONG = 20
"""Max number of answers in the table; they are those of the jobs that start soonest."""
_NEW = "new-"
_SOON_S = 60
"""A job whose median wait is shorter has no reason to wait, unless Slurm gives one."""
_ANYWHERE = "*"
"""The queue of a job that may be submitted to any."""


class Answers(NamedTuple):
    """Answers as ``--json`` prints them, and ``by``, the source of the answers."""

    records: list[dict[str, Any]]
    by: str


def tell(settings: WhenSettings, as_json: bool) -> None:
    """Print the answers, as a table or as one JSON object a line."""
    answers = answered(settings)
    if as_json:
        for record in answers.records:
            click.echo(json.dumps(record))
        return
    if len(answers.records) > 2:
        _table(answers.records).show()
    else:
        for record in answers.records:
            click.echo("\n".join(_lines(record)))
    click.echo(f"Predicted by {answers.by}.")


def answered(settings: WhenSettings) -> Answers:
    """Read a record and a queue, run the queue ahead, and log and return answers."""
    from pipelines.serving.asked_log import AskedLog, asked_place, start_entry, started

    path = settings.queue
    record, queue, learned, version, ledger = _read(settings.trace, path, settings.machine, settings.timezone, settings.model)
    clean, origin_s = record.clean, record.clean.origin_unix_s or 0
    if queue.left_out:
        note(f"{path}: {queue.left_out:,} jobs neither run nor wait and are left out")
    for sentence in queue.notes:
        note(f"{path}: {sentence}")
    now_s = _now(clean, settings.now, path)
    if late := past_limits(queue.jobs, now_s + origin_s, record.site):
        running = f"{late:,} running jobs are" if late > 1 else "1 running job is"
        note(
            f"{path}: WARNING: at {clock_of(clean, now_s)} {running} over an hour past the limit, so the time of the "
            "snapshot or the time zone is wrong: give --now or --time-zone; these answers are not logged"
        )
    announce_compilation()
    rows_of_new = [_job(text, number, now_s + origin_s) for number, text in enumerate(settings.jobs, 1)]
    anywhere = {job["job_id"] for job in rows_of_new if job["queue"] == _ANYWHERE}
    for job in rows_of_new:
        job["queue"] = None if job["queue"] == _ANYWHERE else job["queue"]
    new = pd.DataFrame(rows_of_new, columns=queue.jobs.columns)
    jobs = pd.concat([queue.jobs.astype(object), new.astype(object)], ignore_index=True)
    jobs = jobs.assign(user=pd.Series(as_stored(jobs["user"], clean.hashed_with, clean.name), dtype=object))
    for column in ("user", "queue"):
        named = jobs[column].dropna()
        if len(unknown := named[~named.isin(clean.jobs[column].dropna().unique())]):
            ask = f"{len(unknown):,} of {len(jobs):,} jobs {'is' if len(unknown) == 1 else 'are'} of a {column}"
            note(f"{path}: {ask} without earlier jobs in {clean.name}, such as {shown(unknown.iloc[0])}: other jobs predict them")
    associated = {association.user for association in record.site.associations} - {""} if record.site is not None else None
    if record.site is not None and associated:
        for user in sorted({str(user) for user in new["user"].dropna()} - associated):
            refused = "associations" in record.site.settings.get("accountingstorageenforce", "")
            what = ", so Slurm would refuse the job" if refused else ""
            note(f"--job: cluster {shown(record.site.name)} has no association of user {shown(user)}{what}")
    whole_queue = queue_of(record, jobs, now_s, settings.scenarios, settings.seed)
    if strangers := set(settings.ids) - set(whole_queue.job_id[whole_queue.waiting]):
        raise InputError(f"{path}: job {min(strangers)} does not wait in this queue")
    wanted = {*settings.ids, *new["job_id"]}
    rows = np.array([row for row in whole_queue.waiting if not wanted or whole_queue.job_id[row] in wanted], np.int64)
    if not len(rows):
        raise InputError(f"{path}: no job waits in this queue: ask about one with --job")
    name = (settings.model or f"start-{clean.name}").partition("@")[0]
    kept = started(name, record.numbered, record.start_s, origin_s)
    kept = kept[kept["version"] == version] if record.site is not None else kept
    past_answers = pd.concat([answers for answers in (ledger, kept) if len(answers)] or [kept])
    last_s = int(past_answers["at_s"].max()) if len(past_answers) else now_s
    records = list[dict[str, Any]]()
    log = AskedLog(asked_place())
    for number, answer in enumerate(whole_queue.answered(learned, rows)):
        if answer.job_id in anywhere:
            answer = replace(answer, places=whole_queue.places(rows[number]))
        before = kept[(kept["job_id"] == answer.job_id) & (kept["at_s"] < now_s)]
        if len(before) and len(rows) <= 2:
            answer = replace(answer, moved=whole_queue.moved(rows[number], int(before["at_s"].iloc[-1])))
        row = _as_record(answer, whole_queue, like(past_answers, answer.fits, last_s))
        job_id = None if row["job_id"].startswith(_NEW) else row["job_id"]
        times = {"at_unix_s": now_s + origin_s, "submit_unix_s": now_s + origin_s - row["waited_s"]}
        if not late:
            log.put(start_entry(time.time(), name, version, {**row, **times, "job_id": job_id}))
        records.append(row)
    return Answers(records, _by(whole_queue, name, version))


def _read(
    trace: str, path: Path, machine: Path | None, timezone: str | None, model: str | None
) -> tuple[Record, QueueFile, StartModel | None, str, pd.DataFrame]:
    """Return record, snapshot, model (None: scenarios answer), its version and past answers.

    A Slurm site is not used if the snapshot lacks a column that it needs. Its model must have learned with its
    scheduler.
    """
    entry = load_catalogue().get(trace)
    if machine is None and entry is not None:
        machine = entry.site
    if machine is not None:
        timezone = timezone or (entry.timezone if entry else None) or "UTC"
        queue = read_queue(path, timezone)
        if not queue.absent:
            accounting = Path(trace) if entry is None else entry.path
            record = record_of(*load_site_jobs(accounting, machine, timezone), timezone, trace if entry else "")
            learned, version, past = _learned(trace, model, SLURM) if entry or model else _NOT_LEARNED
            return record, queue, learned, version, past
        note(f"{path}: has no column {queue.absent[0]}, so one pool under EASY replaces {machine.name}: {COMMAND}")
    learned, lake = _learned(trace, model, EASY), _lake(trace)
    clean = lake.read_clean(trace)
    ahead = EASY if learned[0] is None or learned[0].ahead == SLURM else learned[0].ahead
    return Record(clean, read_features(lake, clean).start_s, ahead=ahead), read_queue(path, clean.timezone), *learned


_NOT_LEARNED = None, SLURM, pd.DataFrame()
"""Result of :func:`_learned` if no model has learned with the scheduler of a Slurm site: the scheduler alone
answers."""


def _learned(trace: str, model: str | None, ahead: str) -> tuple[StartModel | None, str, pd.DataFrame]:
    """Return the model for the scheduler ``ahead``, its version and its past answers.

    Times are Unix seconds at a Slurm site. Raises InputError if ``model`` has not learned with the Slurm that runs
    ahead.
    """
    from models.registry.registration import registered_version
    from models.registry.start_registration import START, load

    lake = _lake(trace)
    if model is None and not lake.has("starts", trace):
        if ahead == SLURM:
            return _NOT_LEARNED
        raise InputError(
            f"{trace}: no model of starts is registered: run queuecast run --trace {trace} --starts, or give the folder of a Slurm site as --machine"
        )
    ledger = lake.read("starts", trace)[0] if lake.has("starts", trace) else pd.DataFrame()
    if ahead == SLURM and model is None and not lake.read("start_model", trace)[1]["serves"].get("champion"):
        return _NOT_LEARNED
    name, _, alias = (model or START.registered(trace)).partition("@")
    learned, number = load(tracking(), name, alias or "champion"), registered_version(tracking(), name, alias or "champion").version
    if ahead == SLURM and learned.ahead != SLURM:
        if model is not None:
            raise InputError(f"--model {model}: was not trained with simulations of the site's Slurm")
        return _NOT_LEARNED
    origin_s = 0 if ahead == EASY or learned.origin_unix_s is None else learned.origin_unix_s
    return learned, str(number), ledger.assign(at_s=ledger["at_s"] + origin_s) if len(ledger) else ledger


def _lake(trace: str) -> Lake:
    return Lake(home() / "lake").at_once(f"runtime-{trace}")


def _now(clean: CleanTrace, moment: str | None, path: Path) -> int:
    if moment is None:
        return (named_second(path) or int(path.stat().st_mtime)) - (clean.origin_unix_s or 0)
    if moment.isdecimal() and len(moment) <= len(str(limits.SECONDS)):
        return int(moment)
    local = pd.to_datetime(moment, format="ISO8601", errors="coerce")
    if not isinstance(local, pd.Timestamp) or not moment[:1].isdecimal():  # pandas reads "now" and "today", too
        raise InputError(f"--now {shown(moment)}: is neither a local time such as 2026-03-01T09:00:00 nor a second of the trace")
    if local.tzinfo is not None:
        return int(local.timestamp()) - (clean.origin_unix_s or 0)
    return int(to_unix(np.array([local], "datetime64[s]"), ZoneInfo(clean.timezone or "UTC")).unix_s[0]) - (
        clean.origin_unix_s or 0
    )


def _job(text: str, number: int, now_unix_s: int) -> dict[str, Any]:
    """Return the job of ``--job``, submitted now, as a row of a snapshot."""
    keys = ("procs", "time", "user", "queue", "account", "qos", "tres", "features", "reservation", "priority")
    fields = dict(part.split("=", 1) for part in text.split() if "=" in part)
    if set(fields) - set(keys) or not {"procs", "time"} <= set(fields) or len(fields) != len(text.split()):
        raise InputError(
            f"--job {shown(text)}: is not of the form 'procs=16 time=2:00:00 user=ann queue=batch' (queue=*: any); known: {', '.join(keys)}"
        )
    try:
        seconds = duration(fields["time"])
    except ValueError:
        seconds = 0.0
    try:
        priority = float(fields.pop("priority", "nan"))
    except ValueError:
        priority = np.inf
    if np.isinf(priority):
        raise InputError(f"--job {shown(text)}: priority is a number, the site's, as squeue's PriorityLong")
    procs = fields["procs"]
    if not (procs.isdecimal() and len(procs) <= 9 and int(procs) >= 1 and 1 <= seconds <= limits.SECONDS):
        raise InputError(f"--job {shown(text)}: procs is a whole number of at least 1, and time as in 2:00:00 or 1-00:00:00")
    row: dict[str, Any] = {
        **dict.fromkeys(OF_SLURM, ""),
        **dict.fromkeys(("user", "queue", "start_unix_s", "expected_unix_s")),
        **fields,
    }
    row |= {"job_id": f"{_NEW}{number}", "runs": False, "procs": int(procs), "requested_s": int(seconds), "priority": priority}
    return row | {"submit_unix_s": now_unix_s}


_SHOWN = ("wait_10_s", "wait_25_s", "wait_50_s", "wait_75_s", "wait_90_s")


def _times(clean: CleanTrace, at_s: float, *waits_s: float) -> dict[str, str]:
    """Return the time of an answer and its predicted starts, as the site's clock shows them."""
    return {"now": clock_of(clean, at_s)[:-3]} | {
        f"at_{name[5:7]}": clock_of(clean, at_s + wait)[:-3] for name, wait in zip(_SHOWN, waits_s, strict=True)
    }


def _as_record(answer: PredictedStart, queue: TraceQueue, before: dict[str, float]) -> dict[str, Any]:
    """Return an answer as ``--json`` prints it: seconds, and times of day."""
    rounded = {name: round(value) if name.startswith("wait") else round(value, 4) for name, value in answer.forecast.items()}
    times = _times(queue.clean, queue.now_s, *(rounded[name] for name in _SHOWN))
    changes = [
        {**vars(change), "mean_s": round(change.mean_s), "low_s": round(change.low_s), "high_s": round(change.high_s)}
        for change in answer.changes
    ]
    later = {name: f"later than {at}" for name, at in times.items() if rounded.get(f"wait_{name[3:]}_s", 0) >= queue.ahead.within_s}
    head = {name: value for name, value in vars(answer).items() if name not in ("forecast", "changes", "reason", "moved", "places")}
    reason = {name: [*value] if isinstance(value, tuple) else value for name, value in vars(answer.reason).items()}
    why = {"reason": reason, "moved": [{**vars(cause), "seconds": round(cause.seconds)} for cause in answer.moved]}
    why["places"] = [
        {name: round(value) if name.endswith("_s") else value for name, value in vars(place).items()} for place in answer.places
    ]
    return {**head, **rounded, **times, **later, "last_30_days": before, "changes": changes, **why}


def _by(queue: TraceQueue, name: str, version: str) -> str:
    """Return the model that answered, and the simulations that it read."""
    ahead = queue.ahead
    if isinstance(ahead, SiteAhead):
        ran = f"{ahead.scenarios} simulations of the next {ahead.within_s // 3600} h with the Slurm of cluster {shown(ahead.site.name)}"
        return ran if version == SLURM else f"{name} version {version} from {ran}"
    pool = closed(ahead.by, queue.clean.procs)
    closings = "" if pool is None else f", with {len(pool.closings)} closings a week"
    by = "EASY" if pool is None else pool.algorithm
    return f"{name} version {version} from {ahead.scenarios} {by} simulations of the queue{closings}"


def _lines(record: dict[str, Any]) -> list[str]:
    now, name = record["now"], "a new job" if record["job_id"].startswith(_NEW) else f"job {record['job_id']}"
    job = f"{name} ({_processors(record['procs'])}, limit {words(record['requested_s'])}), seen at {now}"
    later = "" if record["at_50"] == now else f", in {words(record['wait_50_s'])}"
    start = f"in {words(record['wait_50_s'])}" if record["at_50"] == now and record["wait_50_s"] else _at(record["at_50"], now)
    lines = [
        f"{job}: expected to start {start}{later}",
        f"  with a chance of 80 % it starts {_between(record, '10', '90')}, of 50 % {_between(record, '25', '75')}",
        "  chance to start within 10 min {chance_10m:.0%}, 1 h {chance_1h:.0%}, 4 h {chance_4h:.0%}, 24 h {chance_24h:.0%}".format(
            **record
        ),
    ]
    if record["reason"]["by_slurm"] or record["wait_50_s"] >= _SOON_S:
        lines += [f"  {sentence}" for sentence in sentences_of(record["reason"], record["procs"])]
    if record["reason"]["limit"] and record["wait_50_s"] < _SOON_S:
        lines.append("  the limit is used up now, and in most simulations a running job ends within a minute and frees it")
    lines += [f"  {sentence}" for sentence in sentences_of_places(record["places"])]
    lines += [f"  since the answer before: {sentence_of_cause(cause)}" for cause in record["moved"]]
    if (before := record["last_30_days"])["answers"]:
        off, held = words(before["median_error_s"]), before["held_80"]
        answers = "1 such answer" if before["answers"] == 1 else f"{before['answers']:,} such answers"
        lines.append(f"  {answers} in the last 30 days: off by {off} in the median; 80 % intervals held {held:.0%}")
    lines += [f"  with {change['what']} {_gained(change)}" for change in record["changes"]]
    return lines


def _processors(count: int) -> str:
    return "1 processor" if count == 1 else f"{count:,} processors"


def _gained(change: dict[str, Any]) -> str:
    """Return what a change of the job gains, in words."""
    job = f"({_processors(change['procs'])}, limit {words(change['requested_s'])})"
    if change["mean_s"] == 0:
        return f"{job} it would start no sooner"
    if change["mean_s"] > 0:
        return f"{job} it would start {words(change['mean_s'])} later on average"
    return f"{job} it would start {words(-change['mean_s'])} sooner on average, {'surely' if change['sure'] else 'but not surely'}"


def _at(time_: str, now: str) -> str:
    return "now" if time_ == now else time_ if time_.startswith("later") else f"at {time_}"


def _between(record: dict[str, Any], low: str, high: str) -> str:
    """Return an interval in words, under a minute in seconds."""
    first, last, now = record[f"at_{low}"], record[f"at_{high}"], record["now"]
    soonest_s, latest_s = record[f"wait_{low}_s"], record[f"wait_{high}_s"]
    if latest_s - soonest_s < _SOON_S and latest_s > 0 and not last.startswith("later"):
        return f"in {words(soonest_s)}" if soonest_s == latest_s else f"in {words(soonest_s)} to {words(latest_s)}"
    return _at(first, now) if first == last else f"between {'now' if first == now else first} and {last}"


def _table(records: list[dict[str, Any]]) -> Table:
    columns = {"job": "{job_id}", "processors": "{procs:,}", "expected start": "{at_50}", "in": "{in_50}"}
    columns |= {"1 in 10 before": "{at_10}", "9 in 10 before": "{at_90}"}
    columns |= {"within 1 h": "{chance_1h:.0%}", "within 24 h": "{chance_24h:.0%}"}
    left = len(records) - _LONG
    below = f"{left:,} more wait: --json prints all" if left > 0 else ""
    title = f"When jobs start, seen at {records[0]['now']}"
    soonest = [
        record | {"in_50": words(record["wait_50_s"])} for record in sorted(records, key=lambda record: record["wait_50_s"])[:_LONG]
    ]
    return Table.of(title, columns, soonest, note=below, left=("job",))
