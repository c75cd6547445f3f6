"""Settings files in TOML, read with errors of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features import limits
from features.errors import InputError
from pipelines.lake.places import read, write
from pipelines.readers.text import opened, toml_tables

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def read_settings(path: Path, what: str = "settings") -> dict[str, Any]:
    """Return the tables of a TOML file; raise InputError with file, line and what is wrong."""
    with opened(path) as file:
        content = file.read(limits.LINE_BYTES + 1)
    if len(content) > limits.LINE_BYTES:
        raise InputError(f"{path}: has more than {limits.LINE_BYTES >> 20} MiB: it holds no {what}")
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the {what} is not UTF-8 text") from error
    return toml_tables(path, text)


def editable(path: Path) -> TOMLDocument:
    """Return a settings file for editing, with its comments; a new one if there is none."""
    return _document(path, read(path))


@contextmanager
def changing(path: Path) -> Iterator[TOMLDocument]:
    """Yield :func:`editable`, then write the changed document; one process at a time."""
    import tomlkit

    from pipelines.lake.locks import held

    with held(path.with_suffix(".lock")):
        before = read(path)
        document = _document(path, before)
        yield document
        if (text := tomlkit.dumps(document).encode()) != before:
            write(path, text)


def _document(path: Path, content: bytes | None) -> TOMLDocument:
    import tomlkit

    if content is None:
        return tomlkit.document()
    read_settings(path)
    return tomlkit.parse(content.decode())
