"""Versions of made tables, an S3 server on this machine, what is asked of it, and a lock that was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from pipelines.storage import places, remote
from pipelines.storage.lake import Lake
from pipelines.storage.versions import SetAliases

SUBJECT = "runtime-t"


class Asked(NamedTuple):
    """A request of S3, and the bytes that it brought."""

    method: str
    bytes: int = 0


def point_at(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process find S3 at ``server``."""
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hidden-secret")


def counted(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Return a list that requests of the filesystem of ``place`` are added to from now on."""
    asked: list[Asked] = []
    fs = place.fs  # type: ignore[attr-defined]
    real = fs._call_s3

    async def counting(method: str, *given: object, **named: object) -> object:
        answer = await real(method, *given, **named)
        asked.append(Asked(method, answer["ContentLength"] if method == "get_object" else 0))
        return answer

    monkeypatch.setattr(fs, "_call_s3", counting)
    return asked


def write_numbers(lake: Lake, **numbers: int) -> None:
    """Write tables of one number each."""
    for table, number in numbers.items():
        lake.write(table, "t", pd.DataFrame({"number": [number]}))


def publish(
    root: Path,
    draft: str,
    models: Mapping[str, str] | None = None,
    set_aliases: SetAliases | None = None,
    page: str = "",
    **numbers: int,
) -> None:
    """Publish tables of one number each, a page, and the versions of a model, in the home directory ``root``."""
    lake = Lake(root / "lake", draft)
    write_numbers(lake, **numbers)
    if models:
        lake.name_models(SUBJECT, models)
    if page:
        lake.write_page("t.html", SUBJECT, page)
    lake.versions(SUBJECT).publish(draft, set_aliases)


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Let the clock of object stores be so many days on."""
    monkeypatch.setattr(places.Store, "now_s", lambda self, place: remote.now_s(place) + days * DAY_S)


@contextmanager
def lost_lock(place: Path, most_s: float | None = None) -> Iterator[Callable[[], None]]:
    """Stand in for :func:`pipelines.storage.locks.held` where the lock is lost once it is held."""

    def check() -> None:
        raise InputError(f"{place}: its lock was lost")

    yield check
