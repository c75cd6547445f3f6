"""MetaCentrum's extra SWF columns: allocated nodes, queue, and requested nodes.

The 19th column lists the node of each processor in braces. The 20th is the queue, the 21st a node specification of TORQUE:
``8:ppn=8:x86_64:cl_zegox#excl`` are eight nodes with these properties, eight processors on each, no other job on them.
"""

import re
from functools import cache
from typing import NamedTuple

import numpy as np

from features.jobs.columns import Texts, present
from pipelines.readers.notes import counted

_COLUMNS = 3
_PPN = re.compile(r"ppn=(\d{1,8})(\.\d+)?", re.ASCII)


class NodeSpec(NamedTuple):
    """A parsed node specification; ``nodes`` is -1 if the processors may be on any nodes."""

    nodes: int
    procs_per_node: int
    properties: str
    exclusive: int


UNREADABLE = NodeSpec(-1, -1, "", -1)


@cache
def node_spec(text: str) -> NodeSpec:
    """Parse a node specification of TORQUE; return UNREADABLE for any other text.

    Different kinds of nodes joined by ``+`` are read as processors of any nodes that have the properties of all. A host name is
    read as a property.
    """
    request, *flags = text.split("#")
    properties: dict[str, None] = {}
    shapes = []
    for part in request.split("+"):
        nodes, per_node = 1, 1
        for place, word in enumerate(part.split(":")):
            if match := _PPN.fullmatch(word):
                per_node = int(match[1])
            elif place == 0 and re.fullmatch(r"\d{1,7}", word, re.ASCII):
                nodes = int(word)
            elif name := "" if word.startswith("mem=") else word.removeprefix("host="):
                properties[name] = None
            elif not word:
                return UNREADABLE
        shapes.append((nodes, per_node))
    if min(map(min, shapes)) < 1:
        return UNREADABLE
    shape = shapes[0] if len(shapes) == 1 else (-1, -1)
    return NodeSpec(*shape, ":".join(properties), int("excl" in flags))


class NodeRequests:
    """The extra columns of a file's job lines; ``there`` if all lines so far have them."""

    def __init__(self) -> None:
        self.there = False
        self._jobs = 0
        self._codes: tuple[list[int], list[int]] = ([], [])
        self._texts: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def take(self, jobs: int, lines: list[list[bytes]]) -> None:
        """Add a block of ``jobs`` jobs; ``lines`` has their fields if one has more than 18."""
        if jobs == 0:
            return
        first = self._jobs == 0
        self._jobs += jobs
        self.there = (
            (self.there or first)
            and bool(lines)
            and all(len(line) == 18 + _COLUMNS and line[18].startswith(b"{") for line in lines)
        )
        for line in lines if self.there else ():
            for word, codes, texts in zip(line[19:21], self._codes, self._texts, strict=True):
                codes.append(texts.setdefault(word.decode("utf-8", "replace"), len(texts)))

    def columns(self) -> dict[str, object]:
        """Return the columns of the jobs table."""
        specs = [node_spec(text) for text in self._texts[1]]
        codes = np.array(self._codes[1], np.int64)
        nodes, per_node, exclusive = (np.array([spec[place] for spec in specs], np.int64)[codes] for place in (0, 1, 3))
        return {
            "queue": Texts.of(list(self._texts[0]))[self._codes[0]],
            "nodes": present(nodes, nodes > 0),
            "procs_per_node": present(per_node, per_node > 0),
            "properties": Texts.of([spec.properties or None for spec in specs])[codes],
            "exclusive": present(exclusive, exclusive >= 0).astype(np.int8),
        }

    def notes(self) -> list[str]:
        """Return sentences about what was read."""
        specs = {text: node_spec(text) for text in self._texts[1]}
        counts = np.bincount(self._codes[1], minlength=len(specs))
        sentences = [
            "Columns 20 and 21 are read as queue and requested nodes, and the requested memory as bytes a job (as MetaCentrum writes)."
        ]
        for sentence, odd in (
            ("Requests of different kinds of nodes are read as processors of any nodes", ["+" in text for text in specs]),
            ("Memory in requests of nodes (mem=) is not read", ["mem=" in text for text in specs]),
            ("Requests of nodes that cannot be read are taken as missing", [spec == UNREADABLE for spec in specs.values()]),
        ):
            counted(sentences, sentence, counts[odd])
        return sentences
