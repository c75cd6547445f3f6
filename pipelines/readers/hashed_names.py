"""Hashing of the names in a trace with the site's key, if the site sets one.

Readers of formats that hold people's names call this, so that no later stage sees the names. SWF has numbers, not names.
"""

from dataclasses import replace

import numpy as np

from features.deferred import pd
from features.errors import InputError
from features.jobs.schema import Trace
from models.packed.site_names import VARIABLE, check_value, hashed, site_key

NAMES = ("user", "group", "executable")
WITHHELD = f"(not kept: names are stored hashed, ${VARIABLE})"


def with_hashed_names(trace: Trace) -> Trace:
    """Return ``trace`` with its names hashed with the site's key, if there is one.

    Hashes users, groups and executables; unreadable lines lose their text. Raises InputError if the key is too short, or if the
    names are hashed with another key.
    """
    try:
        key = site_key()
    except ValueError as error:
        raise InputError(str(error)) from error
    if key and trace.hashed_with not in ("", check_value(key)):
        raise InputError(f"{trace.source or trace.name}: its names were hashed with another key than that of ${VARIABLE}")
    if not key or trace.hashed_with:
        return trace
    jobs = trace.jobs.copy(deep=False)
    for name in NAMES:
        column = jobs[name].cat
        if not len(column.categories):  # Arrow would lose the text type
            continue
        codes, kept = pd.factorize(pd.Index([hashed(text, key) for text in column.categories], dtype="str"))
        jobs[name] = pd.Categorical.from_codes(np.append(codes, -1)[column.codes], categories=kept)  # merge a name and its hash
    unread = tuple(line._replace(text=WITHHELD) for line in trace.unread)
    note = f"Users, groups and executables are hashed with ${VARIABLE}."
    return replace(trace, jobs=jobs, unread=unread, notes=(*trace.notes, note), hashed_with=check_value(key))
