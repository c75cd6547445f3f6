"""Versions of made tables, an S3 server on this machine, and locks that stand in for a database's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pandas as pd
import pytest

from pipelines.lake.locks import held
from pipelines.lake.places import local_home
from pipelines.lake.tables import Lake
from pipelines.lake.versions import SetAliases

SUBJECT = "runtime-t"


def point_at(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process find S3 at ``server``."""
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hidden-secret")


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


def file_lock(place: Path, most_s: float | None = None) -> AbstractContextManager[None]:
    """Stand in for a lock in PostgreSQL, by one on this machine."""
    name = hashlib.sha256(str(place).encode()).hexdigest()
    return held(local_home() / f"{name}.lock", most_s)
