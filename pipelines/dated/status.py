"""The state of a trace's nights, and the removal of what blocks them.

Nights are stuck if every later one fails for the same reason: results cannot be published (they name a version that is gone from
the registry), or an earlier night used accounting that reached farther than it does now, so that later nights find rows missing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from features.errors import InputError, first_line
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import recorded_end_s
from models.registry.tracking import Tracking
from pipelines.dated.ledger import nights_before
from pipelines.report.wording import instant
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import aliases_of, alone, finish
from pipelines.storage.version import Version
from pipelines.storage.versions import Versions
from sim.history_starts import history_starts

_CLEARED = "queuecast nights --clear"


@dataclass(frozen=True)
class NightStatus:
    """Lines for users: the last night ``done``, what is ``stuck``, and nights that ``failed``.

    ``failed`` has one line per failed night since the last one done.
    """

    done: str
    stuck: Sequence[str]
    failed: Sequence[str]


def begun(home: Path, trace: str) -> bool:
    """Tell whether a night of ``trace`` was ever begun in ``home``."""
    return (home / "nights" / trace).exists()


def status(home: Path, clean: CleanTrace) -> NightStatus:
    """Return the state of the nights in ``home`` of the trace ``clean``. Changes nothing."""
    lake, versions = Lake(home / "lake"), _versions(home, clean.name)
    clean, nights = lake.counted_as_stored(clean), nights_before(lake, clean.name, "")
    if len(nights) == 0:
        done = "no night is done yet"
    else:
        last = nights.iloc[-1]
        until = instant(int(last["until_s"]), clean.origin_unix_s)
        done = f"the last night done is {last['night']}, on accounting up to {until}, champion version {last['champion']}; {len(nights):,} in all"
    stuck = []
    if _running(home, clean.name):
        stuck.append("a night or a run is at it now")
    elif not versions.follows:
        stuck.append("a night or run died while it was published; the next one finishes that first")
    ahead = _ahead(nights, clean)
    if len(ahead):
        stuck.append(
            f"accounting ends {instant(_until(clean), clean.origin_unix_s)}, before that of {_listed(ahead)}: no night is done until it reaches "
            "farther, or those are cleared"
        )
    return NightStatus(done, stuck, [path.read_text(encoding="utf-8").strip() for path in _failures(home, clean.name, nights)])


def clear(home: Path, clean: CleanTrace, store: Tracking) -> list[str]:
    """Remove what blocks later nights of ``clean``; return a line for each removal.

    Finishes or discards the work of a dead night. Nights that used accounting beyond its present end are removed from the tables
    ``nights`` and ``served``, and the champion is again that of the last remaining night, or none. Raises InputError while a
    night or a run is at work.
    """
    name, lines = f"runtime-{clean.name}", []
    with alone(home, clean.name):
        lake, versions = Lake(home / "lake", _CLEARED), _versions(home, clean.name)
        try:
            lines += [line] if (line := finish(lake, store, name)) else []
        except Exception as error:  # any error here would block every later night too
            versions.put(versions.kept()[1:] or [Version()])
            lines.append(f"what was published last could not be finished ({first_line(error)}): it was taken back")
        clean, nights = lake.counted_as_stored(clean), nights_before(lake, clean.name, "")
        ahead = _ahead(nights, clean)
        if len(ahead):
            left = nights.iloc[: len(nights) - len(ahead)]
            until = _until(clean)
            before = left.iloc[-1] if len(left) else None
            served_then = {alias: "" if before is None else str(before[alias]) for alias in ("champion", "challenger")}
            lake.name_models(name, served_then)
            _rewrite(lake, "served", clean.name, lambda table: table[(table["at_s"] <= until) & (table["end_s"] <= until)])
            _rewrite(lake, "nights", clean.name, lambda table: table.iloc[: len(left)])
            versions.publish(_CLEARED, aliases_of(store, name))
            champion = (
                f"version {before['champion']} is champion again"
                if before is not None
                else "there is no champion until the next night"
            )
            lines.append(f"{_listed(ahead)}: taken back, since accounting ends before; {champion}")
        failures = _failures(home, clean.name, nights_before(Lake(home / "lake"), clean.name, ""))
        for path in failures:
            path.unlink()
        lines += [f"{len(failures):,} {'note' if len(failures) == 1 else 'notes'} of failed nights: removed"] if failures else []
    return lines


def _versions(home: Path, trace: str) -> Versions:
    return Lake(home / "lake").versions(f"runtime-{trace}")


def _until(clean: CleanTrace) -> int:
    start, _ = history_starts(clean.jobs, clean.procs)
    return int(recorded_end_s(clean.jobs, start).max())


def _ahead(nights: pd.DataFrame, clean: CleanTrace) -> pd.DataFrame:
    """Return the nights from the first on that used accounting beyond its present end."""
    beyond = nights["until_s"].to_numpy() > _until(clean)
    return nights.iloc[int(beyond.argmax()) :] if beyond.any() else nights.iloc[:0]


def _listed(nights: pd.DataFrame) -> str:
    first, last = nights["night"].iloc[0], nights["night"].iloc[-1]
    return f"the night {first}" if len(nights) == 1 else f"the nights {first} to {last}"


def _failures(home: Path, trace: str, nights: pd.DataFrame) -> list[Path]:
    """Return notes of nights that failed after the last one done."""
    last = nights["night"].iloc[-1] if len(nights) else ""
    folder = home / "reports" / "nights" / trace
    return [path for path in sorted(folder.glob("*.failed.txt")) if path.name.removesuffix(".failed.txt") > last]


def _running(home: Path, trace: str) -> bool:
    if not begun(home, trace):
        return False
    with suppress(InputError), alone(home, trace):
        return False
    return True


def _rewrite(lake: Lake, table: str, trace: str, kept) -> None:
    frame, metadata = lake.published().read(table, trace)
    lake.write(table, trace, kept(frame).reset_index(drop=True), {key: value for key, value in metadata.items() if key != "trace"})
