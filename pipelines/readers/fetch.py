"""Downloads of catalogue traces, checked by SHA-256 before they take their place."""

from collections.abc import Callable, Mapping
from pathlib import Path

import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from features import limits
from features.errors import InputError, masked, printable
from pipelines.lake.places import replacing
from pipelines.readers.catalogue import Entry
from pipelines.readers.read import check_kind
from pipelines.readers.source import load

_CHUNK, _TIMEOUT_S = 1 << 16, 30


def fetch(name: str, catalogue: Mapping[str, Entry], directory: Path, note: Callable[[str], None]) -> Path:
    """Return the file of the catalogue trace ``name`` in ``directory``; download if needed.

    Progress goes to standard error. If the catalogue states no checksum, ``note`` gets one line with that of the download. Raises
    InputError for an unknown trace, no network, a full disk, or a download without the stated checksum. Then nothing is left
    behind, and an earlier file stays.
    """
    entry = catalogue.get(name) or catalogue.get(name.lower())
    remote = sorted(entry.name for entry in catalogue.values() if entry.remote)
    if entry is None:
        raise InputError(f"{name}: is not a trace of the catalogue; known: {', '.join(remote)}")
    if not entry.remote:
        raise InputError(f"{name}: needs no fetching, it is {'generated' if not entry.place else entry.path}")
    path = directory / entry.path.name
    if _is_right(path, entry):
        return path
    try:
        with replacing(path) as temporary:
            _download(entry.place, temporary)
            try:
                _check(temporary, entry)
            except InputError as error:
                raise InputError(f"{masked(entry.place)}: {str(error).removeprefix(f'{temporary}: ')}") from error
    except requests.RequestException as error:
        raise InputError(f"{masked(entry.place)}: cannot be fetched: {_reason(error)}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    if not entry.checked:
        note(
            f"{entry.name}: Queuecast does not know this file's checksum, so it was not checked: sha256_content of this copy is "
            f"{load(path).sha256_content}; state it in queuecast.toml to have later copies checked"
        )
    return path


def _is_right(path: Path, entry: Entry) -> bool:
    try:
        _check(path, entry)
    except InputError:  # missing or damaged: fetch it again
        return False
    return True


def _check(path: Path, entry: Entry) -> None:
    """Raise InputError unless a file has the entry's checksums; without any, unless it begins like a trace."""
    source = load(path)
    entry.check(source)
    if not entry.checked:
        check_kind(source)  # a server's error page is no trace


def _download(address: str, temporary: Path) -> None:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    # without "identity" a server may unpack the file on the way, and sha256 would differ
    headers, taken = {"Accept-Encoding": "identity"}, 0
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        requests.get(address, stream=True, timeout=_TIMEOUT_S, headers=headers) as answer,
        temporary.open("wb") as file,
    ):
        answer.raise_for_status()
        total = int(answer.headers.get("content-length", 0)) or None
        bar = progress.add_task(printable(masked(address).rsplit("/", 1)[-1])[:60], total=total)
        for chunk in answer.iter_content(_CHUNK):
            taken += len(chunk)
            if taken > limits.UNPACKED_BYTES:  # a server may send without end
                raise InputError(f"{masked(address)}: sends more than {limits.UNPACKED_BYTES:,} bytes, more than any trace has")
            file.write(chunk)
            progress.update(bar, advance=len(chunk))


def _reason(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection ended before the file did"
    if isinstance(error, requests.Timeout):
        return "the server does not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection (is there a network?)"
    return " ".join(masked(str(error)).split())
