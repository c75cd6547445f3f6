"""Users' reactions by name: ``open``, or ``closed`` with an option."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from features.errors import InputError
from models.runtime.options import check_known, named

OPEN, CLOSED = LOOPS = ("open", "closed")
RECORDED = "recorded"


@dataclass(frozen=True)
class Users:
    """How users react: the ``loop``, and where jobs' ends come from.

    ``ends`` is ``recorded``, or names the scheduler that simulates them from requests and recorded submissions.
    """

    loop: str = OPEN
    ends: str = RECORDED


@lru_cache(maxsize=256)
def users(name: str) -> Users:
    """Return the users called ``name``, such as ``closed(ends=EASY)``.

    InputError with the known names for any other. ``open`` takes no options, because submissions are as recorded.
    """
    try:
        loop, options = named(name)
        if loop not in LOOPS:
            raise InputError(f"known: {', '.join(LOOPS)}, with an option as in closed(ends=EASY)")
        if loop == OPEN and options:
            raise InputError("takes no options, because submissions are as recorded")
        for option in options:
            check_known(option, ("ends",))
    except InputError as error:
        raise InputError(f"users {name!r}: {error}") from error
    return Users(loop, options.get("ends", RECORDED))
