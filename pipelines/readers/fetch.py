"""Downloads of catalogue traces, checked by SHA-256 before they take their place."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import requests
from rich.console import Console
from rich.markup import escape
from rich.progress import wrap_file
from urllib3.exceptions import HTTPError

from features.errors import InputError, masked, printable
from pipelines.lake.places import replacing
from pipelines.readers.catalogue import Entry
from pipelines.readers.read import check_kind
from pipelines.readers.text import load

_TIMEOUT_S = 30


def fetch(name: str, catalogue: Mapping[str, Entry], directory: Path, note: Callable[[str], None]) -> Path:
    """Return the file of the catalogue trace ``name`` in ``directory``; download if needed.

    Progress goes to standard error. If the catalogue states no checksum, ``note`` gets one line with that of the
    download. Raises InputError for an unknown trace, no network, a full disk, or a download without the stated
    checksum. Then nothing is left behind, and an earlier file stays.
    """
    entry = catalogue.get(name) or catalogue.get(name.lower())
    remote = sorted(entry.name for entry in catalogue.values() if entry.remote)
    if entry is None:
        raise InputError(f"{name}: is not a trace of the catalogue; known: {', '.join(remote)}")
    if not entry.remote:
        raise InputError(f"{name}: needs no fetching, it is {'generated' if not entry.place else entry.path}")
    path = directory / entry.path.name
    with suppress(InputError):  # missing or damaged: fetch it again
        _check(path, entry)
        return path
    try:
        with replacing(path) as temporary:
            _download(entry.place, temporary)
            try:
                _check(temporary, entry)
            except InputError as error:
                raise InputError(f"{masked(entry.place)}: {str(error).removeprefix(f'{temporary}: ')}") from error
    except (requests.RequestException, HTTPError) as error:
        raise InputError(f"{masked(entry.place)}: cannot be fetched: {_reason(error)}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    if not entry.checked:
        note(
            f"{entry.name}: Queuecast does not know this file's checksum, so it was not checked: sha256_content of this copy is "
            f"{load(path).sha256_content}; state it in queuecast.toml to have later copies checked"
        )
    return path


def _check(path: Path, entry: Entry) -> None:
    """Raise InputError unless a file has the entry's checksums; without any, unless it begins like a trace."""
    source = load(path)
    entry.check(source)
    if not entry.checked:
        check_kind(source)  # a server's error page is no trace


def _download(address: str, temporary: Path) -> None:
    # without "identity" a server may unpack the file on the way, and sha256 would differ
    headers = {"Accept-Encoding": "identity"}
    with requests.get(address, stream=True, timeout=_TIMEOUT_S, headers=headers) as answer, temporary.open("wb") as file:
        answer.raise_for_status()
        total, name = int(answer.headers.get("content-length", 0)), printable(masked(address).rsplit("/", 1)[-1])[:60]
        with wrap_file(answer.raw, total, description=escape(name), console=Console(stderr=True)) as content:
            shutil.copyfileobj(content, file)


def _reason(error: requests.RequestException | HTTPError) -> str:
    if isinstance(error, HTTPError):
        return "the connection ended before the file did"
    if error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.ConnectionError):
        return "no connection (is there a network?)"
    return " ".join(masked(str(error)).split())
