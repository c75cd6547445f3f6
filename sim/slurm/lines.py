"""The files of a site's folder, and parsers for Slurm's texts.

These parse lines of KEY=VALUE, names, times and weights.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from features.errors import InputError
from features.node_list import expand_nodes
from sim.slurm.site import BILLED, UNLIMITED

CONF, GRES, ACCOUNTS, QOS = "slurm.conf", "gres.conf", "accounts.dump", "qos.txt"
SSHARE, RESERVATIONS, EVENTS, EPILOG, CONFIG = "sshare.txt", "reservations.txt", "events.txt", "epilog.txt", "config.txt"
FILES = {
    CONF: "cp /etc/slurm/slurm.conf .      # and the files that it includes",
    CONFIG: "scontrol show config > config.txt      # says the release",
    GRES: "cp /etc/slurm/gres.conf .",
    ACCOUNTS: "sacctmgr dump CLUSTER file=accounts.dump",
    QOS: "sacctmgr -P show qos > qos.txt",
    SSHARE: "sshare -alP > sshare.txt      # only if the accounting begins today; else leave it out: older usage fades by half each "
    "PriorityDecayHalfLife",
    RESERVATIONS: "scontrol -o show reservation > reservations.txt      # add those that have ended: without them jobs start on nodes that were kept",
    EVENTS: "sacctmgr -P show event start=2026-01-01 > events.txt",
    EPILOG: "# epilog.txt: one number, the seconds that Epilog takes on a node, measured; leave it out if slurm.conf has no Epilog",
}
"""The files of a site's folder, and the command that makes each; the first must be there."""
EXPORT = (
    "sacct --allusers --allocations --parsable2 --duplicates --starttime 2026-01-01 --format JobID,JobIDRaw,User,Account,Partition,QOS,State,Submit,"
    "Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,ReqMem,ReqTRES,NodeList,Priority,Flags,Reservation,Reason,"
    "Constraints,JobName,SubmitLine > accounting.txt"
)
"""The command that exports a site's accounting; free text stands last, since only the last column can hold the
delimiter."""


class KeyedLine(NamedTuple):
    """A line of a file: its pairs, with keys in lower case, and its ``text``."""

    file: str
    number: int
    pairs: dict[str, str]
    text: str = ""

    def error(self, what: str) -> InputError:
        """Return an InputError that names file and line."""
        return InputError(f"{self.file}, line {self.number}: {what}")

    def whole(self, key: str, default: int) -> int:
        """Return the whole number of ``key``; raises InputError for any other value."""
        text = self.pairs.get(key)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,15}", text):
            raise self.error(f"{key}={text} is not a whole number")
        return int(text)

    def decimal(self, key: str) -> float:
        """Return the number of ``key``; raises InputError for any other value."""
        if not re.fullmatch(r"\d{1,15}(\.\d+)?", self.pairs[key]):
            raise self.error(f"{key}={self.pairs[key]} is not a number")
        return float(self.pairs[key])


def expand(names: str, line: KeyedLine) -> tuple[str, ...]:
    """Return the names in a list such as ``n[1-3,07],b1``, in that order.

    Raises InputError for a list that cannot be read.
    """
    try:
        return expand_nodes(names)
    except ValueError as error:
        raise line.error(f"{names} is not {error}") from error


def dropped(nodes: Collection[str], file: str) -> list[str]:
    """Return a note on nodes that a file names and slurm.conf does not describe, if any."""
    first = ", ".join(sorted(nodes, key=natural)[:3])
    return [f"{file} names {len(nodes):,} nodes that {CONF} does not describe, such as {first}: they are left out"] if nodes else []


def seconds(text: str) -> int:
    """Return Slurm's ``minutes``, ``H:M:S``, ``D-H`` or ``D-H:M:S`` in seconds.

    Raises ValueError for another form.
    """
    if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
        return UNLIMITED
    if not re.fullmatch(r"(\d{1,9}-)?\d{1,9}(:\d{1,9}){0,2}", text):
        raise ValueError(text)
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        return int(days) * 86_400 + sum(part * unit_s for part, unit_s in zip(parts, (3600, 60, 1), strict=False))
    if len(parts) == 3:
        return parts[0] * 3600 + parts[1] * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)


def tres_weights(text: str, shares: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return ``CPU=1.0,Mem=0.25G,GRES/gpu=2`` as weights of a processor, a MiB, a GPU.

    A weight of ``GRES/gpu:a100`` counts by the share that the GPUs of this type have, ``shares`` by ``gpu:a100``.
    Raises ValueError for another form.
    """
    weights = dict[str, float]()
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().lower().partition("=")
        unit = {"k": 1024.0, "g": 1 / 1024, "t": 1 / 1024**2}.get(value[-1:], 1.0)
        kind, of_type = name.removeprefix("gres/"), name.startswith("gres/gpu:")
        if name not in BILLED and not of_type:
            raise ValueError(f"{part} is not one of {', '.join(BILLED)}")
        if not re.fullmatch(r"\d{0,9}\.?\d{0,9}(?<=.)[kmgt]?", value):
            raise ValueError(f"{part} has no number")
        weight = float(value.rstrip("kmgt")) * (unit if name == "mem" else 1.0)
        if of_type:
            name, weight = "gres/gpu", weight * (shares or {}).get(kind, 0.0)
        weights[name] = weights.get(name, 0.0) + weight
    return weights


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts n2 before n10, as in slurmctld's table of nodes."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", name)]


def conf_lines(texts: Mapping[str, str], file: str, name: str, depth: int = 0) -> Iterator[KeyedLine]:
    """Yield the lines of a configuration file and of the files that it includes.

    Continued lines are joined. Raises InputError for a missing file or a line without KEY=VALUE.
    """
    held, begun = "", 0
    for number, raw in enumerate(texts[file].splitlines(), start=1):
        text = re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        begun = begun or number
        if text.endswith("\\"):
            held += text[:-1]
            continue
        text, held, at, begun = held + text, "", begun, 0
        if not text.strip():
            continue
        if match := re.match(r"\s*include\s+(\S+)", text, re.IGNORECASE):
            other = match[1].rsplit("/", 1)[-1]
            if other not in texts or depth > 3:
                raise InputError(f"{name}/{file}, line {at}: includes {match[1]}, which does not exist")
            yield from conf_lines(texts, other, name, depth + 1)
            continue
        pairs = {key.lower(): value.strip('"') for key, value in re.findall(r'([\w./-]+)\s*=\s*("[^"]*"|\S*)', text)}
        if not pairs:
            raise InputError(f"{name}/{file}, line {at}: {text.strip()!r} is not of the form KEY=VALUE")
        yield KeyedLine(f"{name}/{file}", at, pairs, text.strip())
