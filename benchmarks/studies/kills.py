"""Kill runs and nights at random moments, and count what a reader would have lost: ``python -m benchmarks.studies.kills --kills 200``.

One home has a version published by a run, another one published by a night. Each kill copies one, starts a run or a night on later accounting
in a process of its own, and kills it with SIGKILL: one half at a moment drawn uniformly from the time that it takes, one half from the
moment on that it begins to publish. A reader must then see the version of before whole (tables, page and aliases), or the new one whole;
and after what a reader of the registry does, the aliases must be those that the version names.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from contextlib import closing
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads of OpenMP cannot be forked

from models.registry import tracking

MODEL = "runtime-arriving"
JOBS = 900


def main() -> None:
    """Kill as often as asked, and print a line for each kind of outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random_ = random.Random(asked.seed)
    found: collections.Counter[tuple[str, str, str]] = collections.Counter()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        root = Path(place)
        warm(root / "warm")
        first = {kind: prepared(root / kind, kind) for kind in KINDS}
        for kind, (whole, publishes) in first.items():
            print(f"a {kind} takes {whole:.1f} s and publishes from {publishes:.1f} s on", flush=True)
        for number in range(asked.kills):
            kind, when = list(KINDS)[number % 2], ("any moment", "publishing")[number // 2 % 2]
            found[kind, when, killed(root, kind, when, first[kind], random_)] += 1
            if (number + 1) % 20 == 0:
                print(f"{number + 1} kills in {time.perf_counter() - began:.0f} s, {lost(found)} with anything lost", flush=True)
    for (kind, when, outcome), count in sorted(found.items()):
        print(f"{kind:<6} {when:<11} {outcome:<28} {count}")
    print(f"{asked.kills} kills, {lost(found)} with anything lost")
    raise SystemExit(1 if lost(found) else 0)


def lost(found: collections.Counter[tuple[str, str, str]]) -> int:
    """Count the kills after which a reader missed something."""
    return sum(count for (_, _, outcome), count in found.items() if outcome.startswith("LOST"))


def warm(home: Path) -> None:
    """Do a run and a night in this process, in a home of their own, so that those to be killed start with everything compiled."""
    from models.packed.methods import Quantile
    from models.registry.candidates import TRAINERS

    del TRAINERS[Quantile.name]  # takes long to train, and writes as the others do; before modules look that list them all
    home.mkdir()
    os.environ |= {"QUEUECAST_HOME": str(home), "MLFLOW_TRACKING_URI": ""}
    for kind in KINDS.values():
        kind(home, 0)


def night(home: Path, number: int, report: int | None = None) -> None:
    """Do a night on the accounting of day ``number``."""
    from pipelines.workflows.night_replay import own_registry
    from pipelines.workflows.nights import night as one_night
    from tests.support.arriving import source

    tell_publishing(report)
    trace = source(jobs=JOBS)
    midnight = trace.midnights[30 + number]
    one_night("arriving", trace.label(midnight), lambda: trace.accounting(midnight), lambda: own_registry(home), home)


def run(home: Path, number: int, report: int | None = None) -> None:
    """Run the whole graph on the accounting of day ``number``."""
    import dagster as dg

    from features.jobs.schema import Trace
    from pipelines.definitions import defs
    from pipelines.ingest.canonical import write_canonical
    from pipelines.sources.traces import remember
    from tests.support.arriving import source

    tell_publishing(report)
    trace = source(jobs=JOBS)
    kept = trace.accounting(trace.midnights[30 + number])
    path = home.parent / "arriving.parquet"
    write_canonical(Trace("arriving", kept.jobs, kept.procs, kept.origin_unix_s, kept.timezone), path)
    remember(str(path))
    ops = {"schedules": {"config": {"schedulers": ["EASY"], "predictors": ["requested"]}}}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["arriving"])
        settings = {"ops": ops, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        defs.resolve_job_def("full_run").execute_in_process(run_config=settings, partition_key="arriving", instance=instance)


KINDS = {"run": run, "night": night}


def tell_publishing(report: int | None) -> None:
    """Write a byte to the file ``report`` when a draft begins to be published."""
    from pipelines.storage.versions import Versions

    real = Versions.publish

    def publish(self, *arguments, **keywords):
        if report is not None:
            os.write(report, b"p")
        return real(self, *arguments, **keywords)

    Versions.publish = publish  # type: ignore[method-assign]


def in_child(kind: str, home: Path, number: int) -> tuple[int, int]:
    """Start a run or a night; its process, and the end of a pipe that says when it begins to publish."""
    hears, tells = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(os.open(home / "killed.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            os.environ["QUEUECAST_HOME"] = str(home)
            os.chdir(home)
            tracking._SITE = None  # the store of the home in which this was warmed
            KINDS[kind](home, number, tells)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(tells)
    return child, hears


def prepared(home: Path, kind: str) -> tuple[float, float]:
    """Have a first version in ``home``; seconds that a second takes in all, and from when on it publishes, measured on a copy."""
    home.mkdir()
    child, hears = in_child(kind, home, 0)
    os.close(hears)
    if os.waitpid(child, 0)[1]:
        raise SystemExit((home / "killed.log").read_text())
    copy = Path(shutil.copytree(home, home.with_name(f"{kind}-timed")))
    began = time.perf_counter()
    child, hears = in_child(kind, copy, 1)
    os.read(hears, 1)
    publishes = time.perf_counter() - began
    failed = os.waitpid(child, 0)[1]
    took = time.perf_counter() - began
    os.close(hears)
    if failed:
        raise SystemExit((copy / "killed.log").read_text())
    shutil.rmtree(copy)
    return took, publishes


def killed(root: Path, kind: str, when: str, timed: tuple[float, float], random_: random.Random) -> str:
    """Kill one run or night; what a reader sees then."""
    home = Path(shutil.copytree(root / kind, root / "killed"))
    before = seen(home)
    child, hears = in_child(kind, home, 1)
    whole, publishes = timed
    if when == "publishing":
        os.read(hears, 1)
        time.sleep(random_.uniform(0, 0.6 * (whole - publishes)))
    else:
        time.sleep(random_.uniform(0, whole))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(hears)
    said = outcome(home, before)
    shutil.rmtree(home)
    return said


def outcome(home: Path, before: tuple) -> str:
    """What is to be said of ``home`` where ``before`` was seen in the version before."""
    from pipelines.storage.versions import Versions

    versions = Versions(home / "lake", MODEL)
    now = seen(home)
    if now[0] == before[0]:
        return "the version before" if now == before else "LOST: the version before is not whole"
    moved: dict[str, str] = {}
    versions.follow(moved.update)
    named = aliases(home) | moved
    models, current = dict(versions.current().models), versions.current()
    whole = all((home / "lake" / file).is_file() for file in current.files.values()) and len(current.files) >= len(before[1])
    pages = [entry for entry in current.files if entry.startswith("reports/")]
    shown = all((home / entry).read_bytes() == (home / "lake" / current.files[entry]).read_bytes() for entry in pages)
    if not whole or not shown or named != models:
        return "LOST: the new version is not whole"
    return "the new version, mended" if moved else "the new version"


def seen(home: Path) -> tuple:
    """The version that readers see, the content of its tables and pages, and the registry's aliases."""
    from pipelines.storage.versions import Versions

    current = Versions(home / "lake", MODEL).current()
    files = {entry: hashlib.sha256((home / "lake" / file).read_bytes()).hexdigest() for entry, file in current.files.items()}
    pages = {
        path.name: path.read_bytes()
        for path in sorted((home / "reports").rglob("*.html"))
        if f"reports/{path.name}" in current.files
    }
    return current.version, files, pages, aliases(home)


def aliases(home: Path) -> dict[str, str]:
    """The registry's aliases as they lie in its database: a registry that is opened in this process could not be forked."""
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        rows = database.execute("SELECT alias, version FROM registered_model_aliases WHERE name = ?", (MODEL,)).fetchall()
    return {alias: str(version) for alias, version in rows}


if __name__ == "__main__":
    main()
