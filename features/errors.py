"""The one exception for bad input, and foreign text made safe to print."""

import re

from features import limits


class InputError(ValueError):
    """Bad input, told in one line: file, line and what is wrong, as far as known.

    The command line prints the message alone and exits with 2; any other exception that escapes is a defect of Queuecast.
    """


def printable(text: str) -> str:
    r"""Escape control characters of ``text``, such as \x1b, but tabs and line ends.

    So are marks that are not seen or change the direction of writing, and halves of characters, which no terminal can print.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\t\n" else each.encode("unicode_escape").decode() for each in text)


def one_line(text: str, most: int = limits.MESSAGE) -> str:
    """Return ``text`` as one printable line; beyond ``most`` characters its middle is cut."""
    line = printable(" ".join(text[: 10 * most].split()) if len(text) <= 10 * most else _ends(text, 5 * most))
    return line if len(line) <= most else _ends(line, (most - 5) // 2)


def shown(value: object, most: int = 40) -> str:
    """Return a value as an error names it: texts quoted, cut at ``most`` characters."""
    if isinstance(value, str):
        return repr(value if len(value) <= most else value[:most] + "...")
    said = repr(value)
    return said if len(said) <= most else said[:most] + "..."


def masked(text: str) -> str:
    """Return a text without the passwords and the queries of the URLs in it."""
    text = re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)
    return re.sub(r"(://[^\s?]+)\?[^\s'\"]*", r"\1", text)


def _ends(text: str, each: int) -> str:
    return " ... ".join(" ".join(part.split()) for part in (text[:each], text[-each:]))
