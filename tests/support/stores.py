"""An S3 server on this machine, what is asked of it, and a lock that was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from features.errors import InputError


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


@contextmanager
def lost_lock(place: Path, most_s: float | None = None) -> Iterator[Callable[[], None]]:
    """Stand in for :func:`pipelines.storage.locks.held` where the lock is lost once it is held."""

    def check() -> None:
        raise InputError(f"{place}: its lock was lost")

    yield check
