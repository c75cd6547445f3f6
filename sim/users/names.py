"""Users' reactions by name: ``open``, ``closed`` and ``semi-open``, with options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from features import limits
from features.errors import InputError
from models.runtime.options import check_known, chosen, named, whole

OPEN, CLOSED, SEMI_OPEN = LOOPS = ("open", "closed", "semi-open")
LAST, MAX, ARRIVAL = RULES = ("last", "max", "arrival")
"""What delimits sessions: time since the end of the user's last job, since its last end so far, or since its last submission."""
SESSION_S = 1200
"""Max think time within a session, by Zakay & Feitelson."""
RECORDED = "recorded"


@dataclass(frozen=True)
class Users:
    """How users react: the ``loop``, and how sessions are found.

    A session begins more than ``session_s`` seconds after the time that ``rule`` names. ``ends`` is ``recorded``, or names the
    scheduler that simulates the jobs' ends from requests and recorded submissions.
    """

    loop: str = OPEN
    session_s: int = SESSION_S
    rule: str = LAST
    ends: str = RECORDED


@lru_cache(maxsize=256)
def users(name: str) -> Users:
    """Return the users called ``name``, such as ``closed(session=1200,rule=last)``.

    InputError with the known names for any other. ``open`` takes no options, because submissions are as recorded.
    """
    try:
        loop, options = named(name)
        if loop not in LOOPS:
            raise InputError(f"known: {', '.join(LOOPS)}, with options as in closed(session={SESSION_S},rule={LAST})")
        if loop == OPEN and options:
            raise InputError("takes no options, because submissions are as recorded")
        for option in options:
            check_known(option, ("session", "rule", "ends"))
        session_s = whole("session", options.get("session", str(SESSION_S)), minimum=0, maximum=limits.SECONDS)
        rule = chosen(f"rule={options.get('rule')}", options.get("rule", LAST), RULES)
    except InputError as error:
        raise InputError(f"users {name!r}: {error}") from error
    return Users(loop, session_s, rule, options.get("ends", RECORDED))
