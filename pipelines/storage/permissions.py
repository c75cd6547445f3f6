"""Modes of the files that are written, and owners of those that are trusted.

The home directory holds users' names and accounting, so only its owner has access; a file that the user names gets the user's
umask. Files in a home directory decide what is run, so one that another user could have changed is refused.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from stat import S_IWGRP, S_IWOTH

from features.errors import InputError

PRIVATE = 0o077
"""The umask for files in the home directory."""
SHARED, TRUSTED = "QUEUECAST_UMASK", "QUEUECAST_TRUST_HOME"
"""Environment variables: another umask, for a site that shares; and 1 if files of other users are trusted."""
_users: list[int] = []
_named: set[Path] = set()


def keep_private() -> None:
    """Set this process's umask to :func:`umask`; keep the user's for named outputs."""
    before = os.umask(umask())
    if not _users:
        _users.append(before)


def umask() -> int:
    """Return the home directory's umask; raise InputError if $QUEUECAST_UMASK is invalid."""
    text = os.environ.get(SHARED) or f"{PRIVATE:o}"
    try:
        mask = int(text, 8)
    except ValueError:
        mask = -1
    if not 0 <= mask <= 0o777 or mask & 0o700:
        raise InputError(f"${SHARED}: {text} is no umask such as 027 (a group may read) or 077 (only its owner may)")
    return mask


def name_outputs(paths: Iterable[Path]) -> None:
    """Note the files and directories that the user asked for by name."""
    _named.update(path.absolute() for path in paths)


def hand_over(written: Path, place: Path) -> None:
    """Give ``written`` the user's umask if ``place`` is a named output, or below or above one."""
    place = place.absolute()
    if _users and any(place.is_relative_to(each) or each.is_relative_to(place) for each in _named):
        written.chmod((0o777 if written.is_dir() else 0o666) & ~_users[0])


def check_owner(path: Path) -> Path:
    """Return ``path``; raise InputError if another user owns it or can change it.

    It need not exist. Files of root are trusted; with $QUEUECAST_TRUST_HOME=1 all files are.
    """
    if os.environ.get(TRUSTED) == "1":
        return path
    try:
        status = path.stat()
    except OSError:  # reported when it is read
        return path
    remedy = f"; {TRUSTED}=1 believes it all the same"
    if status.st_uid not in (os.getuid(), 0):
        raise InputError(f"{path}: belongs to {_owner(path)}, not to you, and what lies there decides what is run{remedy}")
    by_group = status.st_mode & S_IWGRP and umask() & S_IWGRP and not _own_group(path)
    if status.st_mode & S_IWOTH or by_group:
        raise InputError(f"{path}: can be changed by other users, and what lies there decides what is run: chmod go-w it{remedy}")
    return path


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return f"user {path.stat().st_uid}"


def _own_group(path: Path) -> bool:
    """Tell whether the group of ``path`` is its owner's private one, of the owner's name."""
    try:
        return path.group() == _owner(path)
    except KeyError:
        return False
