"""The one rule for names of traces and systems.

Names become keys of catalogues, file names, partition keys and names of registered models.
"""

import re

from features.errors import InputError, shown

LONGEST = 100
RULE = f"a name is at most {LONGEST} lower-case letters, digits, hyphens and single dots, the first a letter or digit"
_NAME = re.compile(rf"(?!.*\.\.)[a-z0-9][a-z0-9.-]{{0,{LONGEST - 1}}}")


def is_name(text: str) -> bool:
    """Tell whether ``text`` follows :data:`RULE`."""
    return _NAME.fullmatch(text) is not None


def check_name(text: str, where: str) -> str:
    """Return ``text`` if it is a name, else raise InputError.

    The error gives ``where`` the text stands, the rule, and a similar valid name.
    """
    if not is_name(text):
        like = re.sub(r"\.\.+", ".", with_hyphens(text)).lstrip(".-")[:LONGEST]
        raise InputError(
            f"{where}: {shown(text)} is not a name{f' (such as {like})' if is_name(like) and len(like) <= 40 else ''}: {RULE}"
        )
    return text


def with_hyphens(text: str) -> str:
    """Return ``text`` in lower case, with hyphens for characters not allowed in names.

    The result may still not be a name.
    """
    return re.sub(r"[^a-z0-9.-]", "-", text.lower())
