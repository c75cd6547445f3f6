"""Commands that change a home directory, each with what a reader sees before and after: for kills and full disks.

A scene has a folder of its own with what the command reads, and the home directory in ``home``. Every function of a scene runs in a
fork of a warm process, so that it takes no second of imports.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines import cli
from tests.support.patience import FOREVER_S
from tests.support.system_calls import together

JOBS = 400
MODEL = "runtime-arriving"
_VOLATILE = {"version", "champion", "champion_before", "trained_version", "challenger", "why", "simulate_s", "serving_s"}
"""Columns that hold versions of models or measured times; they differ where a command was done twice."""


def queuecast(place: Path, *arguments: str) -> int:
    """Run a command on the home directory of ``place`` in this process, which it changes: call it in a fork."""
    at_home(place)
    sys.argv = ["queuecast", *arguments]
    cli.main()
    return 0


def at_home(place: Path) -> None:
    """Make this process one of a user whose home directory is in ``place``."""
    from models.registry import tracking

    for name in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        os.environ.pop(name, None)
    tracking._SITE = None  # the store of the home in which this process was warmed
    os.environ["QUEUECAST_HOME"] = str(place / "home")
    os.chdir(place)


def forked(body: Callable[[], Any]) -> Any:
    """Return the JSON value of ``body``, called in a fork; AssertionError, with the end of what it prints, where it fails."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:

        def tell() -> int:
            json.dump(body(), file, default=str)
            file.flush()
            return 0

        (ended,) = together([tell], seconds=FOREVER_S)
        assert ended.code == 0, ended.how
        file.seek(0)
        return json.loads(file.read() or "null")  # a command leaves by SystemExit, and has no value


@dataclass(frozen=True)
class Scene:
    """A command, and how it is seen.

    ``prepare(place)`` makes the results of before, ``act(place)`` runs the command. ``seen(place)`` returns what readers see, as JSON,
    and raises AssertionError where that is not whole; ``mend(place)`` does what a reader does first. ``result(place)`` is the part of
    it that does not change where the command is done twice.
    """

    name: str
    prepare: Callable[[Path], Any]
    act: Callable[[Path], int]
    seen: Callable[[Path], Any]
    mend: Callable[[Path], Any]
    result: Callable[[Path], Any]


def warm(folder: Path, scenes: Iterable[str]) -> None:
    """Do the commands once in this process, in homes of their own, so that forks start with everything loaded and compiled."""
    from models.packed.methods import Quantile
    from models.registry.candidates import TRAINERS

    TRAINERS.pop(Quantile.name, None)  # takes long to train, and writes as the others do
    for scene in (SCENES[name] for name in scenes):
        place = folder / scene.name
        place.mkdir(parents=True)
        for step in (scene.prepare, scene.act, scene.seen, scene.mend, scene.result):
            try:
                step(place)
            except SystemExit as left:
                if left.code:
                    raise RuntimeError(f"{scene.name}: {left.code}") from left
    os.chdir(folder.parent)
    shutil.rmtree(folder)


# runs and nights: a subject's version, with tables, pages and aliases


def accounting(place: Path, day: int) -> str:
    """Write the accounting of a day; return its file."""
    from features.jobs.schema import Trace
    from pipelines.readers.canonical import write_canonical
    from tests.support.arriving import source

    trace = source(jobs=JOBS)
    kept = trace.accounting(trace.midnights[day])
    write_canonical(Trace("arriving", kept.jobs, kept.procs, kept.origin_unix_s, kept.timezone), place / "arriving.parquet")
    return str(place / "arriving.parquet")


def run(place: Path) -> int:
    """Run the pipeline on the accounting that is there, with few policies."""
    less = ("--scheduler", "EASY", "--predictor", "requested", "--correction", "requested")
    return queuecast(place, "run", "--trace", str(place / "arriving.parquet"), *less)


def _prepare_run(place: Path) -> None:
    accounting(place, 24)
    run(place)
    accounting(place, 25)


def night(place: Path, day: int) -> int:
    """Do the night of a day of the accounting that is there, in the home directory itself."""
    from tests.support.arriving import source

    trace = source(jobs=JOBS)
    label = trace.label(trace.midnights[day - 1])
    less = ("--nights", "1", "--home", str(place / "home"))
    return queuecast(place, "nights", str(place / "arriving.parquet"), "--until", label, *less)


def _prepare_night(place: Path) -> None:
    accounting(place, 26)
    night(place, 20)


def _prepare_promotion(place: Path) -> None:
    from pipelines.lake.registry import tracking

    at_home(place)
    client = tracking().client
    client.create_registered_model(MODEL)
    for _ in range(3):
        client.create_model_version(MODEL, (place / "home").as_uri())
    _promote(place, "1", "2")


def _promotion(place: Path) -> int:
    """Publish a version with another champion as a command would, which tells its errors in a line."""
    at_home(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "cli", lambda standalone_mode: _promote(place, "2", "3"))
        cli.main()
    return 0


def _promote(place: Path, champion: str, challenger: str) -> int:
    from pipelines.lake.publishing import alone, publish
    from pipelines.lake.registry import tracking
    from pipelines.lake.tables import Lake

    at_home(place)
    store, lake = tracking(), Lake(place / "home" / "lake", f"draft-{champion}-{os.getpid()}")
    for table in ("jobs", "runtime_model", "schedules"):
        lake.write(table, "arriving", pd.DataFrame({"of": [int(champion)]}))
    lake.write_page("arriving.html", MODEL, champion)
    lake.name_models(MODEL, {"champion": champion, "challenger": challenger})
    with alone(place / "home", "arriving", 5.0):
        publish(lake, MODEL, f"run {champion}", store)
    return 0


def aliases(place: Path) -> dict[str, str]:
    """Return the registry's aliases as they lie in its database."""
    with closing(sqlite3.connect(place / "home" / "mlflow.db")) as database:
        rows = database.execute("SELECT alias, version FROM registered_model_aliases WHERE name = ?", (MODEL,)).fetchall()
    return {alias: str(version) for alias, version in rows}


def version_seen(place: Path) -> dict[str, Any]:
    """Return a subject's version as readers see it: tables by content, pages shown, aliases.

    AssertionError where a table's file is not what its name says.
    """
    from pipelines.lake.tables import Lake

    lake = Lake(place / "home" / "lake")
    current = lake.versions(MODEL).current()
    for entry, file in current.files.items():
        digest = hashlib.sha256((lake.root / file).read_bytes()).hexdigest()
        assert digest.startswith(Path(file).stem), f"{entry}: {file} is not whole"
        if not entry.startswith("reports/"):
            lake.read(entry, "arriving")
    pages = {entry: _digest(place / "home" / entry) for entry in current.files if entry.startswith("reports/")}
    return {"version": current.version, "files": dict(current.files), "pages": pages, "aliases": aliases(place)}


def version_followed(place: Path, seen: Mapping[str, Any]) -> str:
    """Return what is wrong with a version that everything should follow, "" if nothing is."""
    from pipelines.lake.tables import Lake

    models = Lake(place / "home" / "lake").versions(MODEL).current().models
    named = {alias: number for alias, number in models.items() if number}
    if seen["aliases"] != named:
        return f"aliases {seen['aliases']} do not follow {named}"
    shown = {entry: seen["files"][entry] for entry in seen["pages"]}
    wrong = [entry for entry, file in shown.items() if not (seen["pages"][entry] or "").startswith(Path(file).stem)]
    return f"pages {wrong} do not follow" if wrong else ""


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _mend_version(place: Path) -> None:
    from pipelines.lake.publishing import finish
    from pipelines.lake.registry import tracking
    from pipelines.lake.tables import Lake

    at_home(place)
    finish(Lake(place / "home" / "lake"), tracking(), MODEL)


def _version_result(place: Path) -> dict[str, Any]:
    from pipelines.lake.tables import Lake

    lake = Lake(place / "home" / "lake")
    state: dict[str, Any] = {"files": sorted(lake.versions(MODEL).current().files), "aliases": sorted(aliases(place))}
    for table in state["files"]:
        if table.startswith("reports/"):
            continue
        frame = lake.read(table, "arriving")[0]
        if table == "runtime_model" and "alias" in frame:  # done twice, a run lists the versions that serve
            frame = frame.loc[frame["alias"] != "", ["method", "alias"]].sort_values("alias", ignore_index=True)
        state[table] = text_of(frame)
    return state


def text_of(frame: pd.DataFrame) -> str:
    """Return a digest of a table without what differs from run to run, and its rows."""
    kept = frame.drop(columns=[name for name in frame.columns if name in _VOLATILE])
    text = kept.to_json(orient="split", default_handler=str, double_precision=15)
    return f"{len(frame)} rows {hashlib.sha256(text.encode()).hexdigest()[:16]}"


# a campaign with its journal


def _campaign(place: Path) -> int:
    chosen = [word for name in ("EASY", "FCFS-Strict", "SPF-EASY") for word in ("--scheduler", name)]
    out = str(place / "home" / "out.parquet")
    return queuecast(
        place, "campaign", str(place / "arriving.parquet"), "--windows", "weeks", "--workers", "1", "--out", out, *chosen
    )


def _prepare_campaign(place: Path) -> None:
    accounting(place, 26)
    (place / "home").mkdir()


def _campaign_seen(place: Path) -> Any:
    from pipelines.lake.files import read_parquet

    out = place / "home" / "out.parquet"
    return text_of(read_parquet(out, kind="campaign")[0]) if out.exists() else None


# LDMS ingestion

_HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"
_FIRST_S = 1_507_680_000


def _logs(place: Path, hours: int) -> None:
    (place / "logs").mkdir(exist_ok=True)
    for hour in range(hours):
        rows = [f"{_FIRST_S + 3600 * hour + when}.000000,0,n{node},1,0,{when},7" for when in range(0, 50, 10) for node in (1, 2)]
        (place / "logs" / f"sysclassib.{_FIRST_S + 3600 * hour}").write_text("\n".join([f"{_HEAD},port_xmit_data,x", *rows]) + "\n")
    runs = "".join(f"r{hour},AMG,x,n1 n2,{_FIRST_S + 3600 * hour + 30},60\n" for hour in range(hours))
    (place / "runs.csv").write_text(f"run_id,application,input,nodes,start_s,runtime_s\n{runs}")


def _ingest(place: Path) -> int:
    return queuecast(place, "variability", "ingest", "--system", "quartz", "--counters", "logs", "--runs", "runs.csv")


def _prepare_ingest(place: Path) -> None:
    _logs(place, 1)
    _ingest(place)
    _logs(place, 3)


def _ingest_seen(place: Path) -> dict[str, Any]:
    """Return rows by file of the ledger, and runs; each file is there whole or not."""
    from pipelines.lake.counters import CountersStore
    from pipelines.lake.run_store import RUNS, stored
    from pipelines.lake.tables import Lake

    lake = Lake(place / "home" / "lake")
    store = CountersStore(lake.root, "quartz")
    times = [float(time) for batch in store.batches("sysclassib") for time in batch.column("time_s").to_pylist()]
    assert len(times) == 10 * len(store.files), f"{len(times)} samples of {len(store.files)} files"
    return {"times": times, "runs": stored(lake, RUNS, "quartz")["run_id"].tolist()}


def _nothing(place: Path) -> None:
    """There is nothing to mend."""


SCENES = {
    scene.name: scene
    for scene in (
        Scene("run", _prepare_run, run, version_seen, _mend_version, _version_result),
        Scene("night", _prepare_night, lambda place: night(place, 21), version_seen, _mend_version, _version_result),
        Scene("promotion", _prepare_promotion, _promotion, version_seen, _mend_version, _version_result),
        Scene("campaign", _prepare_campaign, _campaign, _campaign_seen, _nothing, _campaign_seen),
        Scene("ingestion", _prepare_ingest, _ingest, _ingest_seen, _nothing, _ingest_seen),
    )
}
