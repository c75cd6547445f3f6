"""Names that are stored hashed with a site's key: users, groups, executables.

A stored name is the HMAC-SHA256 of the name with the key ($QUEUECAST_HASH_KEY), its first 16 hex digits. The key itself
is never stored; its check value is stored with the hashed names, so that another key is detected. A name that already
looks like a stored name is not hashed again. Packed into registered models.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable

VARIABLE = "QUEUECAST_HASH_KEY"
"""The environment variable with a site's key."""
HASHED = "hashed_with"
"""Entry of settings, metadata and tags: the check value of the key; missing or empty if names are stored plain."""
SHORTEST = 16
"""Min characters of a key: short keys could all be tried on a site's names."""
_STORED = re.compile(r"[0-9a-f]{16}")
_CHECK = "\0check value of the key"


def site_key() -> str:
    """Return the site's key, empty if none is set; ValueError for a short one."""
    key = os.environ.get(VARIABLE, "")
    if 0 < len(key) < SHORTEST:
        raise ValueError(
            f"${VARIABLE}: has {len(key)} characters; a key has at least {SHORTEST}, such as those of openssl rand -hex 32"
        )
    return key


def check_value(key: str) -> str:
    """Return a value that identifies a key; empty for no key."""
    return _hash(_CHECK, key) if key else ""


def hashed(name: str, key: str) -> str:
    """Return ``name`` as it is stored with ``key``."""
    return name if not key or not name or _STORED.fullmatch(name) else _hash(name, key)


def check_key(stored_with: str, what: str, required: bool = False) -> str:
    """Return the key for names of ``what``, whose key has the check value ``stored_with``.

    Empty if they are plain, or if no key is set. ValueError for another key, and if a key is ``required`` but not set.
    """
    key = site_key() if stored_with else ""
    if required and stored_with and not key:
        raise ValueError(f"names in {what} are hashed: set ${VARIABLE} to the key")
    if key and check_value(key) != stored_with:
        raise ValueError(f"names in {what} were hashed with another key than ${VARIABLE} holds")
    return key


def as_stored(names: Iterable[object], stored_with: str, what: str) -> list[object]:
    """Return ``names`` as ``what`` stores them; values that are not text stay unchanged.

    ValueError if the key differs from the site's, or if a name is plain and no key is set.
    """
    listed = list(names)
    if not stored_with:
        return listed
    plain = any(isinstance(name, str) and name and not _STORED.fullmatch(name) for name in listed)
    key = check_key(stored_with, what, required=plain)
    return [hashed(name, key) if isinstance(name, str) else name for name in listed]


def _hash(name: str, key: str) -> str:
    return hmac.new(key.encode(), name.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]
