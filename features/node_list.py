"""Lists of nodes as Slurm writes them, ``quartz[1-16,020],login1``, and plain lists.

Spaces, semicolons or commas separate plain names.
"""

import re
from collections import Counter
from itertools import product

from features.errors import shown

MOST = 1_000_000
"""Max nodes of a list: a typing error such as [1-99999999] would fill the memory."""

_LONGEST = 10_000  # characters of a name with its brackets
_PIECE = re.compile(r"(?:[^\s;,\[\]]+|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return the nodes' names in the order of the list.

    ``[001-016]`` keeps its zeros; several brackets in a name give all combinations, the last one varying fastest.
    Raises ValueError with the expected format.
    """
    names: list[str] = []
    at = 0
    for match in _PIECE.finditer(text):
        if text[at : match.start()].strip(" \t;,"):
            break
        names.extend(_expand(match[0], MOST - len(names)))
        at = match.end()
    if text[at:].strip(" \t;,"):
        raise ValueError("a list of nodes: its brackets do not match")
    if len(set(names)) < len(names):
        repeated = next(name for name, times in Counter(names).items() if times > 1)
        raise ValueError(f"a list of nodes: it names {repeated[:40]} twice")
    return tuple(names)


def _expand(piece: str, room: int) -> list[str]:
    parts = re.split(r"\[([^\[\]]*)\]", piece)  # text and contents of brackets alternate
    if len(piece) > _LONGEST:
        raise ValueError(f"a list of nodes: a name has more than {_LONGEST} characters")
    choices: list[list[str]] = []
    count = 1
    for place, part in enumerate(parts):
        choices.append(_numbers(part, room) if place % 2 else [part])
        count *= len(choices[-1])
        if count > room:
            raise ValueError(f"a list of nodes: it names more than {MOST:,}")
    return ["".join(chosen) for chosen in product(*choices)]


def _numbers(inside: str, room: int) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            raise ValueError(f"a list of nodes: [{inside[:40]}] holds {shown(piece.strip())}, which is no number or range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"a list of nodes: the range {piece.strip()[:40]} ends below its beginning")
        if last - first >= room:
            raise ValueError(f"a list of nodes: it names more than {MOST:,}")
        numbers.extend(f"{number:0{len(match[1])}d}" for number in range(first, last + 1))
    return numbers
