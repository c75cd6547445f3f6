"""The one rule for names of traces and systems: they are keys of catalogues, file names, partition keys and names of registered models."""

from __future__ import annotations

import re

from features.errors import InputError

LONGEST = 100
RULE = f"a name is at most {LONGEST} lower-case letters, digits, hyphens and single dots, the first a letter or digit"
_NAME = re.compile(rf"(?!.*\.\.)[a-z0-9][a-z0-9.-]{{0,{LONGEST - 1}}}")


def is_name(text: str) -> bool:
    """Does ``text`` follow :data:`RULE`?"""
    return _NAME.fullmatch(text) is not None


def check_name(text: str, where: str) -> str:
    """Return ``text``; InputError naming ``where`` it stands, the rule, and a name like it, unless it is one."""
    if not is_name(text):
        shown = text if len(text) <= 40 else text[:40] + "..."
        like = re.sub(r"\.\.+", ".", with_hyphens(text)).lstrip(".-")[:LONGEST]
        raise InputError(f"{where}: {shown!r} is no name{f' (such as {like})' if is_name(like) else ''}: {RULE}")
    return text


def with_hyphens(text: str) -> str:
    """``text`` in lower case, with hyphens for characters that no name has; it may still be no name."""
    return re.sub(r"[^a-z0-9.-]", "-", text.lower())
