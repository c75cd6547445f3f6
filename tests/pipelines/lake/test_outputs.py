"""An output never replaces what is no regular file, and a link to its target stays."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.lake import places


def device(path: Path) -> None:
    """Make a null device of the test's own."""
    if os.getuid() != 0:
        pytest.skip("only root makes devices")
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def listening(path: Path) -> None:
    """Make a socket."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


SPECIAL: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a device": device,
    "a directory": os.mkdir,
    "a socket": listening,
}


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("what", SPECIAL)
def test_what_is_no_file_is_refused_and_stays(what: str, linked: bool, tmp_path: Path) -> None:
    path = tmp_path / "special"
    SPECIAL[what](path)
    before = path.lstat()
    out = tmp_path / "link" if linked else path
    if linked:
        out.symlink_to(path)
    for write in (lambda: places.write(out, "text"), lambda: places.append(out, b"line")):
        with pytest.raises(InputError, match=f"{re.escape(str(out))}: cannot be written: it is no regular file"):
            write()
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(tmp_path.iterdir()) == sorted({path, out})


@pytest.mark.parametrize("there", [False, True])
def test_the_target_of_a_link_is_written_and_the_link_stays(there: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "link"
    if there:
        places.write(target, "before")
    link.symlink_to(Path("elsewhere/target"))
    places.write(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert [path.name for path in target.parent.iterdir()] == ["target"]
