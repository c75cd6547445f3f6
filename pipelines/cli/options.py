"""Options shared by several commands, and the reading of a TRACE argument."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from features.errors import InputError, one_line, printable
from features.jobs.cleaning import MISSING_REQUEST, CleanTrace, clean
from features.jobs.scaling import LARGEST
from features.jobs.shaking import SHAKE_S
from pipelines.ingest.read import find_entry, read_trace
from pipelines.sources.catalogue import PROCESSORS
from pipelines.storage.permissions import name_outputs
from sim.users.names import OPEN

if TYPE_CHECKING:
    from sim.campaigns.maps import Map
    from sim.machine.description import Machine

procs_option = click.option("--procs", type=click.IntRange(min=1), help="Processors of the machine; overrides the trace.")
machine_option = click.option(
    "--machine",
    "machine_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run on the clusters of nodes that FILE describes (TOML or .machines), not on one pool of processors.",
)
timezone_option = click.option(
    "--time-zone", "timezone", help="IANA time zone of local times in Slurm accounting, such as America/Denver."
)
missing_option = click.option(
    "--missing-request",
    type=click.Choice(MISSING_REQUEST),
    help="Jobs that state no requested time: drop them, take their runtime, or the longest request of their queue. "
    "[default: the catalogue's, else drop]",
)
shake_option = click.option(
    "--shake",
    "shake_s",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=SHAKE_S,
    default=0,
    show_default=True,
    metavar="[SECONDS]",
    help=f"Move each submission by up to so many seconds ({SHAKE_S} by default), drawn by the seed: one of many replays, as schedules are chaotic.",
)
users_option = click.option(
    "--users",
    default=OPEN,
    show_default=True,
    help="open: submissions as recorded; closed or semi-open: users submit when what they waited for has ended, with options as in "
    "closed(session=1200,rule=last).",
)


on_option = click.option(
    "--on",
    metavar="PLACE",
    help="Where to simulate: tcp://HOST:PORT of a Dask scheduler, or slurm, pbs and other batch systems, as in slurm(jobs=10). [default: "
    "$QUEUECAST_ON, else threads here]",
)


@contextmanager
def simulating(on: str | None, workers: int | None = None) -> Iterator[Map]:
    """Yield the map of ``--on``, of ``--workers`` threads, or of the site's setting."""
    from pipelines.workers.where import mapped, stated

    if on and workers is not None:
        raise click.UsageError(
            "--workers counts threads here; how many workers there are elsewhere, --on or its configuration says"
        )
    chosen = on if on is not None else stated() if workers is None else ""
    with mapped(chosen, workers, note) as made:
        yield made


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType):
    """Seconds from a text such as 36h, 2d, 90m or 45s."""

    name = "duration"

    def convert(self, value: str | float, parameter: click.Parameter | None, context: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return value
        match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", value)
        if match is None:
            self.fail(f"{value!r} is not a duration such as 36h, 2d, 90m or 45s", parameter, context)
        return float(match[1]) * _UNITS[match[2]]


class _Factor(click.FloatRange):
    """A finite number above 0."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True, max=LARGEST)


load_option = click.option(
    "--load",
    "load_by",
    type=_Factor(),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Divide times between submissions by this: another workload, named so wherever its numbers stand.",
)
squeeze_option = click.option(
    "--squeeze",
    type=_Factor(),
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Divide runtimes, requests and times between submissions by this; named so too.",
)

REGISTERED = (
    "registry:NAME[@ALIAS] is a registered model, the champion by default; one that has learned from the replayed jobs is refused, "
    "unless it is named registry:NAME[@ALIAS](seen=yes), and then bears that name in all tables."
)
"""What commands say of registered models among predictors."""

POLICIES = "POLICY(FILE.json) and POLICY(registry:NAME[@ALIAS]) are orders, as in POLICY(FILE.json)-EASY-SPF: learned policies, shown as the formulas they are."
"""What commands say of learned policies among schedulers."""


def without_policies(names: tuple[str, ...]) -> tuple[str, ...]:
    """Put learned policies' formulas into the names of schedulers; tell what each is for."""
    if not any("policy(" in name.lower() for name in names):
        return names
    from pipelines.storage.policies import resolve

    made = []
    for name in names:
        found = resolve(name)
        for text, policy in found.policies.items():
            threshold = "" if policy.starvation_s is None else f" --starvation {policy.starvation_s}"
            note(
                one_line(
                    f"POLICY({text}) is SCORE({policy.score}), meant for --predictor {policy.predictor}{threshold}",
                    _LONGEST_NOTE,
                )
            )
        made.append(found.scheduler)
    return tuple(made)


_LONGEST_NOTE = 1000
_COUNTED = "queuecast.counted"


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        context.meta.setdefault(_COUNTED, {})[parameter.name] = value


# The meaning of a processor in Slurm accounting: not a parameter of commands, but kept with the context for counted().
processors_option = click.option(
    "--processors",
    type=click.Choice(PROCESSORS),
    expose_value=False,
    callback=_keep,
    help="Which of the two a processor is in Slurm accounting. [default: the catalogue's, else cpus]",
)
cpus_per_node_option = click.option(
    "--cpus-per-node",
    type=click.IntRange(min=1),
    expose_value=False,
    callback=_keep,
    help="In Slurm accounting of a machine that gives whole nodes: count each node as so many processors.",
)


def counted() -> dict[str, Any]:
    """Return ``processors`` and ``cpus_per_node``, as far as the command was given them."""
    return dict(click.get_current_context().meta.get(_COUNTED, {}))


class Finite(click.FloatRange):
    """A number of seconds above 0 that is neither NaN nor infinite."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        number = super().convert(value, param, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, context)
        return float(number)


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[str]) -> None:
    """Raise InputError for an output that cannot be written or would overwrite a file in use.

    It is called before anything is done; files in use are inputs and other outputs.
    """
    read = {Path(name).resolve() for name in inputs}
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        target = path.resolve()
        if target in read:
            raise InputError(f"{option} {path}: would overwrite what is read")
        if target in written:
            raise InputError(f"{option} {path}: is what {written[target]} writes")
        written[target] = option
        name_outputs([path])
        nearest = next(parent for parent in target.parents if parent.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise InputError(f"{option} {path}: cannot be written: {nearest} is no directory that can be written to")


def trace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options wherever a trace is read.

    ``procs``, ``timezone``, ``missing_request``, and those of :func:`counted`.
    """
    for option in (missing_option, cpus_per_node_option, processors_option, timezone_option, procs_option):
        command = option(command)
    return command


def note(text: str) -> None:
    """Print one line about the work to standard error."""
    print(printable(text), file=sys.stderr)


def load_machine(file: Path | None, procs: int | None) -> Machine | None:
    """Read the file of ``--machine``, if it was given; InputError if ``--procs`` was too."""
    if file is None:
        return None
    from pipelines.ingest.machine_file import read_machine

    if procs is not None:
        raise InputError(f"--machine {file} says how many processors there are: give no --procs")
    return read_machine(file)


def load(
    spec: str, procs: int | None, timezone: str | None, missing_request: str | None, machine: Machine | None = None
) -> CleanTrace:
    """Read and clean TRACE, for a ``machine`` if given.

    Dropped and altered jobs are reported on standard error.
    """
    from pipelines.cli.compiling import announce_compilation, import_without_blas

    announce_compilation()
    import_without_blas()
    entry = find_entry(spec)
    trace = read_trace(spec, procs=procs, timezone=timezone, **counted())
    size, holds = (procs, None) if machine is None else (machine.procs, machine.holds)
    cleaned = clean(trace, size, missing_request or (entry.missing_request if entry else "drop"), holds)
    touched = ", ".join(f"{words} {count:,}" for words, count in cleaned.touched().items())
    note(f"{cleaned.name}: {cleaned.jobs_read:,} jobs read, {len(cleaned.jobs):,} kept" + (f" ({touched})" if touched else ""))
    for text in cleaned.notes:
        note(one_line(f"{cleaned.name}: {text}", _LONGEST_NOTE))
    if machine is not None and (unknown := machine.unknown_properties(cleaned.jobs)):
        listed = ", ".join(f"{word} ({count:,} jobs)" for word, count in unknown.items())
        note(
            one_line(
                f"{cleaned.name}: no node of {machine.name} is said to have these, so they are not asked for: {listed}",
                _LONGEST_NOTE,
            )
        )
    return cleaned
