"""Downloads of catalogue traces, checked by SHA-256 before they take their place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from features import limits
from features.errors import InputError, printable
from pipelines.ingest.source import load
from pipelines.sources.catalogue import Entry
from pipelines.storage.atomic import replacing

_CHUNK = 1 << 16


def fetch(name: str, catalogue: Mapping[str, Entry], directory: Path) -> Path:
    """Return the file of the catalogue trace ``name`` in ``directory``; download if needed.

    Progress goes to standard error. Raises InputError for an unknown trace, a missing checksum, no network or no room, or a
    download that is not what the catalogue states; then nothing is left behind, and an earlier file stays.
    """
    entry = catalogue.get(name) or catalogue.get(name.lower())
    remote = sorted(entry.name for entry in catalogue.values() if entry.remote)
    if entry is None:
        raise InputError(f"{name}: no trace of the catalogue; known: {', '.join(remote)}")
    if not entry.remote:
        raise InputError(f"{name}: needs no fetching, it is {'generated' if not entry.place else entry.path}")
    if not entry.checked:
        raise InputError(
            f"{entry.stated_in}: traces.{entry.name}: has neither sha256 nor sha256_content, so a download from {entry.place} could not be checked"
        )
    path = directory / entry.path.name
    if _is_right(path, entry):
        return path
    try:
        with replacing(path) as temporary:
            _download(entry.place, temporary)
            try:
                entry.check(load(temporary))
            except InputError as error:
                raise InputError(f"{entry.place}: {str(error).removeprefix(f'{temporary}: ')}") from error
    except requests.RequestException as error:
        raise InputError(f"{entry.place}: cannot be fetched: {_reason(error)}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def _is_right(path: Path, entry: Entry) -> bool:
    try:
        entry.check(load(path))
    except InputError:  # missing or damaged: fetch it again
        return False
    return True


def _download(address: str, path: Path) -> None:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = _Bar(progress, progress.add_task(printable(address.rsplit("/", 1)[-1])[:60], total=None), address)
        # without "identity" a server may unpack the file on the way, and sha256 would differ
        pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, headers={"Accept-Encoding": "identity"})(address, str(path), None)


class _Bar:
    """The part of tqdm's interface that pooch's downloader uses, shown by rich."""

    def __init__(self, progress: Progress, task: TaskID, address: str) -> None:
        self._address, self._taken = address, 0
        self._progress, self._task = progress, task
        self.total = 0

    def update(self, count: int) -> None:
        self._taken += count
        if self._taken > limits.UNPACKED_BYTES:  # a server need not ever end
            raise InputError(f"{self._address}: sends more than {limits.UNPACKED_BYTES:,} bytes, more than any trace has")
        self._progress.update(self._task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.update(self._task, completed=self.total)


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection ended before the file did"
    if isinstance(error, requests.Timeout):
        return "the server does not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection (is there a network?)"
    return " ".join(str(error).split())
