"""The one exception for bad input, text that is safe to print, and the one rule for names.

Names of traces and systems become keys of catalogues, file names, partition keys and names of registered models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from features import limits


class InputError(ValueError):
    """Bad input, described in one line: file, line and what is wrong, as far as known.

    The command line prints the message alone and exits with 2. Any other exception that escapes is a defect of
    Queuecast.
    """


class Damaged(InputError):
    """A file or a registered version that is missing, damaged, foreign or of another format."""


def unknown(what: str, name: object, choices: Iterable[str], listed: str = "") -> InputError:
    """Return the error for an unknown name, with the most similar choice or all choices.

    ``listed`` replaces the list of all choices if that would be long.
    """
    choices = list(choices)
    return InputError(f"unknown {what} {shown(name)}; {meant(name, choices) or 'known: ' + (listed or ', '.join(choices))}")


def check_names(what: str, names: Iterable[str], choices: Iterable[str]) -> None:
    """Raise :func:`unknown` for the first of the ``names`` names that is not in ``choices``."""
    choices = list(choices)
    for name in names:
        if name not in choices:
            raise unknown(what, name, choices)


def meant(name: object, choices: Iterable[str]) -> str:
    """Return ``did you mean X?`` for the choice most similar to ``name``, or "" for none."""
    from difflib import get_close_matches  # most commands suggest nothing

    by_letters = {choice.lower(): choice for choice in choices}
    alike = get_close_matches(str(name).lower(), by_letters, n=1, cutoff=0.65)
    return f"did you mean {by_letters[alike[0]]}?" if alike else ""


def printable(text: str) -> str:
    r"""Escape control characters of ``text``, such as \x1b, except tabs and line ends.

    Also escapes invisible characters, marks that change the direction of writing, and lone surrogates, which no
    terminal can print.
    """
    if text.isprintable():
        return text
    escaped = {letter: letter.encode("unicode_escape").decode() for letter in text if not letter.isprintable()}
    return "".join(letter if letter in "\t\n" else escaped.get(letter, letter) for letter in text)


def one_line(text: str, most: int = limits.MESSAGE) -> str:
    """Return ``text`` as one printable line; cut its middle beyond ``most`` characters."""
    line = printable(" ".join(text[: 10 * most].split()) if len(text) <= 10 * most else _ends(text, 5 * most))
    return line if len(line) <= most else _ends(line, (most - 5) // 2)


def shown(value: object, most: int = 40) -> str:
    """Return a value as an error message names it: text in quotes, cut at ``most`` characters."""
    if isinstance(value, str):
        return repr(value if len(value) <= most else value[:most] + "...")
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of over 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= most else text[:most] + "..."


ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.]*)://((?P<user>([^\s:@/?#%'\"]|%(?!3a))*)(:(?P<password>[^\s@/?#'\"]*))?@)?"
    r"(?P<place>(?P<host>[\w.-]+|\[[\da-f:.]+\])?(:(?P<port>\d{1,5}))?(/(?P<path>[^\s:;@?#'\"]*))?)(\?(?P<query>[^\s@#'\"]*))?",
    re.IGNORECASE,
)
"""An address that can be read in one way only, so that its password can stand in one place only."""
_PATH = re.compile(r"(?:sqlite|file):/.*|[^:=]*|[/.~][^@]*", re.IGNORECASE)


def is_plain(text: str) -> bool:
    """Tell whether a text is a path or an :data:`ADDRESS`.

    Any other text may contain a password in any part.
    """
    return bool(_PATH.fullmatch(text) or ADDRESS.fullmatch(text))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type if there is none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def masked(text: str) -> str:
    """Return a text with user, password and query removed from its addresses.

    Text that may be a mistyped address becomes ``***``.
    """
    return re.sub(r"[^\s'\"()<>=]*(?:@|:/)[^\s'\"()<>]*?(?=[.,:;]*(?:[\s'\"()<>]|$))", _masked, text)


def _masked(address: re.Match[str]) -> str:
    if address[0].startswith("/") or re.match("(?:sqlite|file):/", address[0]):
        return address[0]
    parts = ADDRESS.fullmatch(address[0])
    return f"{parts['scheme']}://{'' if parts['user'] is None else '***@'}{parts['place']}" if parts else "***"


def _ends(text: str, most: int) -> str:
    return " ... ".join(" ".join(part.split()) for part in (text[:most], text[-most:]))


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
