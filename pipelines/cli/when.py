"""``queuecast when``: when the jobs of a queue start, and what would start sooner."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.errors import InputError, shown
from pipelines.cli.notes import note
from pipelines.cli.options import json_option
from pipelines.ingest.queue_file import COMMAND

if TYPE_CHECKING:
    from features.jobs.cleaning import CleanTrace
    from pipelines.workflows.when import Answer, Job

_LONG = 20
"""Answers that are shown with no job asked about; the first that wait."""


@click.command(epilog=f"A Slurm site makes the snapshot with: {COMMAND}")
@click.argument("trace")
@click.option(
    "--queue",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="What runs and waits now: squeue's text, or CSV.",
)
@click.option("--job", "asked", multiple=True, help="A job to be submitted, as 'procs=16 time=2:00:00 user=ann queue=batch'.")
@click.option("--id", "wanted", multiple=True, help="A job of the queue. [default: all that wait]")
@click.option("--now", "moment", help="The site's local time of the snapshot. [default: when its file was written]")
@click.option("--model", help="Registered model, NAME@ALIAS. [default: start-TRACE@champion]")
@click.option(
    "--scenarios", type=click.IntRange(1, 1024), default=64, show_default=True, help="In how many the queue is run ahead."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@json_option
def command(
    trace: str,
    path: Path,
    asked: tuple[str, ...],
    wanted: tuple[str, ...],
    moment: str | None,
    model: str | None,
    scenarios: int,
    seed: int,
    as_json: bool,
) -> None:
    """Say when jobs of the queue of TRACE start, a trace that was run.

    Answers are those of the registered model start-TRACE: the median, intervals, chances, how good such answers were in the last 30 days, and of one job
    what would start it sooner. Each answer is kept in the home directory, and shown again when the job is asked about anew.
    """
    from models.registry.start_registration import START, load
    from pipelines.cli.compiling import announce_compilation
    from pipelines.dated.history import read_history
    from pipelines.ingest.queue_file import read_queue
    from pipelines.storage.home import home
    from pipelines.storage.lake import Lake
    from pipelines.storage.registry import tracking
    from pipelines.workflows.when import like, queue_of

    lake = Lake(home() / "lake").at_once(f"runtime-{trace}")
    clean = lake.read_clean(trace)
    queue = read_queue(path, clean.timezone)
    if queue.left_out:
        note(f"{path}: {queue.left_out:,} jobs neither run nor wait and are left out")
    now_s = _now(clean, moment, path)
    announce_compilation()
    name, _, alias = (model or START.registered(trace)).partition("@")
    learned = load(tracking(), name, alias or "champion")
    found = queue_of(clean, read_history(lake, clean).start_s, queue.jobs, now_s, [_job(text) for text in asked])
    if unknown := set(wanted) - set(found.job_id[found.waiting]):
        raise InputError(f"{path}: job {sorted(unknown)[0]} does not wait in this queue")
    mine = [row for row in found.waiting if found.job_id[row] in wanted or (asked and found.job_id[row].startswith("new-"))]
    rows = np.array(mine or found.waiting.tolist(), np.int64)
    if not len(rows):
        raise InputError(f"{path}: no job waits in this queue: ask about one with --job")
    answers = found.answered(learned, rows, scenarios, seed)
    told = lake.read("starts", trace)[0] if lake.has("starts", trace) else pd.DataFrame()
    free = clean.procs - int(found.jobs.procs[found.running].sum())
    last_s = int(told["at_s"].max()) if len(told) else now_s
    records = [_record(each, clean, now_s, like(told, each.procs <= free, last_s)) for each in answers]
    kept = _keep(home() / "when" / f"{trace}.jsonl", records, now_s)
    for record in records:
        if as_json:
            click.echo(json.dumps(record))
    if as_json:
        return
    if len(answers) > 2:
        _table(records).show()
        return
    for record in records:
        click.echo("\n".join(_lines(record, [] if record["job_id"].startswith("new-") else kept.get(record["job_id"], []))))


def _now(clean: CleanTrace, moment: str | None, path: Path) -> int:
    from zoneinfo import ZoneInfo

    from pipelines.ingest.localtime import to_unix

    if moment is None:
        return int(path.stat().st_mtime) - (clean.origin_unix_s or 0)
    if moment.isdigit():
        return int(moment)
    local = pd.to_datetime(moment, format="ISO8601", errors="coerce")
    if local is pd.NaT:
        raise InputError(f"--now {shown(moment)}: is no local time such as 2026-03-01T09:00:00, and no second of the trace")
    return int(to_unix(np.array([local], "datetime64[s]"), ZoneInfo(clean.timezone or "UTC")).unix_s[0]) - (
        clean.origin_unix_s or 0
    )


def _job(text: str) -> Job:
    from pipelines.ingest.accounting import duration
    from pipelines.workflows.when import Job

    given = dict(part.split("=", 1) for part in text.split() if "=" in part)
    if set(given) - {"procs", "time", "user", "queue"} or not {"procs", "time"} <= set(given) or len(given) != len(text.split()):
        raise InputError(f"--job {shown(text)}: is not as in 'procs=16 time=2:00:00 user=ann queue=batch'")
    try:
        seconds = duration(given["time"])
    except ValueError:
        seconds = 0.0
    if not given["procs"].isdigit() or int(given["procs"]) < 1 or not seconds >= 1:
        raise InputError(f"--job {shown(text)}: procs is a whole number of at least 1, and time as in 2:00:00 or 1-00:00:00")
    return Job(int(given["procs"]), int(seconds), given.get("user"), given.get("queue"))


def _record(answer: Answer, clean: CleanTrace, now_s: int, before: dict[str, float]) -> dict[str, Any]:
    """Return an answer as ``--json`` prints it: seconds, and times of day."""
    waits = {name: round(value) for name, value in answer.told.items() if name.startswith("wait")}
    at = {name.replace("wait", "at")[:-2]: _clock(clean, now_s + value) for name, value in waits.items()}
    chances = {name: round(value, 4) for name, value in answer.told.items() if name.startswith("chance")}
    changes = [
        {**vars(each), "mean_s": round(each.mean_s), "low_s": round(each.low_s), "high_s": round(each.high_s)}
        for each in answer.changes
    ]
    head = {
        "job_id": answer.job_id,
        "procs": answer.procs,
        "requested_s": answer.requested_s,
        "user": answer.user,
        "waited_s": answer.waited_s,
    }
    return {**head, "now": _clock(clean, now_s), **waits, **at, **chances, "last_30_days": before, "changes": changes}


def _clock(clean: CleanTrace, at_s: int) -> str:
    local = local_clock_s(np.array([at_s]), clean.origin_unix_s, clean.timezone)[0]
    return f"{pd.Timestamp(int(local), unit='s'):%Y-%m-%d %H:%M}"


def _keep(path: Path, records: list[dict[str, Any]], now_s: int) -> dict[str, list[dict[str, Any]]]:
    """Append the answers to those kept; return the earlier ones by job."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before: dict[str, list[dict[str, Any]]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            each = json.loads(line)
            before.setdefault(each["job_id"], []).append(each)
    asked = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    with path.open("a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps({"asked": asked, "now_s": now_s, **record}) + "\n")
    return before


def _lines(record: dict[str, Any], earlier: list[dict[str, Any]]) -> list[str]:
    from pipelines.report.wording import duration as words

    now, name = record["now"], "a new job" if record["job_id"].startswith("new-") else f"job {record['job_id']}"
    asked = f"{name} ({record['procs']} processors, {words(record['requested_s'])})"
    lines = [
        f"{asked}: starts at {record['at_50']} in the median, {words(record['wait_50_s'])} after {now}",
        f"  between {record['at_25']} and {record['at_75']} with 50 %, between {record['at_10']} and {record['at_90']} with 80 %",
        "  chance to start within 10 min {chance_10m:.0%}, 1 h {chance_1h:.0%}, 4 h {chance_4h:.0%}, 24 h {chance_24h:.0%}".format(
            **record
        ),
    ]
    if before := record["last_30_days"]:
        off, held = words(before["median_error_s"]), before["held_80"]
        lines.append(
            f"  {before['answers']:,} such answers in the last 30 days: off by {off} in the median; 80 % intervals held {held:.0%}"
        )
    for each in record["changes"]:
        how = "surely sooner" if each["sure"] else "not surely sooner"
        sign = "sooner" if each["mean_s"] < 0 else "later"
        lines.append(
            f"  with {each['what']} ({each['procs']} processors, {words(each['requested_s'])}): {words(abs(each['mean_s']))} {sign} on average, {how}"
        )
    lines += [
        f"  answered before, at {each['now']}: {each['at_50']} (80 %: {each['at_10']} to {each['at_90']})" for each in earlier[-3:]
    ]
    return lines


def _table(records: list[dict[str, Any]]) -> Any:
    from pipelines.report.table import Table

    rows = [
        [
            each["job_id"],
            f"{each['procs']:,}",
            each["at_50"],
            each["at_10"],
            each["at_90"],
            f"{each['chance_1h']:.0%}",
            f"{each['chance_24h']:.0%}",
        ]
        for each in records[:_LONG]
    ]
    left = len(records) - len(rows)
    below = f"{left:,} more wait: --json prints all" if left > 0 else ""
    return Table(
        "When jobs start", ["job", "processors", "median", "10 %", "90 %", "within 1 h", "within 24 h"], rows, below, left=("job",)
    )
