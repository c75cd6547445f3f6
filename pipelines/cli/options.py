"""Options shared by several commands, and the reading of a TRACE argument."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click
from click.core import ParameterSource

from features.errors import InputError, one_line
from pipelines.cli import importing, note
from pipelines.lake.places import regular, writing
from sim.settings import Campaign, CheckedSettings, TraceSettings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from features.jobs.cleaning import CleanTrace
    from features.jobs.schema import Trace
    from sim.campaigns.maps import Map
    from sim.machine.description import Machine

on_option = click.option(
    "--on",
    metavar="PLACE",
    help="Where to simulate: tcp://HOST:PORT of a Dask scheduler, or slurm(jobs=10). [default: $QUEUECAST_ON, else threads here]",
)


workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="Threads; 1 where simulate_s is to be the simulation alone. [default: one a core]"
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line on standard output, and nothing else there."
)
report_option = click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page to this HTML file."
)
system_option = click.option(
    "--system", "name", required=True, help="The monitored system under whose name counters, control runs and models are stored."
)
home_option = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="The home directory of a replay, with a lake, reports and a registry of its own.",
)
restart_option = click.option("--restart", is_flag=True, help="Discard the journal of what was interrupted.")


def listening(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds --port (default ``port``), --host and --allow-host."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--allow-host",
            "names",
            multiple=True,
            metavar="NAME",
            help="A further name under which it may be asked, such as that of a proxy in front; may be repeated.",
        )(command)
        command = click.option("--host", default="127.0.0.1", show_default=True)(command)
        return click.option("--port", type=click.IntRange(1, 65535), default=port, show_default=True)(command)

    return decorated


def out_option(help_text: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--out``, by default a file; ``attributes`` go to ``click.option``."""
    attributes.setdefault("type", click.Path(path_type=Path, dir_okay=False))
    return click.option("--out", help=help_text, **attributes)


@contextmanager
def simulating(on: str | None, workers: int | None = None) -> Iterator[Map]:
    """Yield the map for ``--on``, for ``--workers`` threads, or by the site's setting."""
    from pipelines.workers import configured, mapped

    if on and workers is not None:
        raise click.UsageError(
            "--workers counts threads on this machine: leave it out beside --on, which says how many workers there are"
        )
    chosen = on if on is not None else configured() if workers is None else ""
    with mapped(chosen, workers, note) as map_points:
        yield map_points


def without_policies(names: tuple[str, ...]) -> tuple[str, ...]:
    """Replace learned policies in scheduler names by formulas; print what each is meant for."""
    if not any("policy(" in name.lower() for name in names):
        return names
    from pipelines.lake.registry import resolve

    schedulers = []
    for name in names:
        resolved = resolve(name)
        for text, policy in resolved.policies.items():
            threshold = "" if policy.starvation_s is None else f" --starvation {policy.starvation_s}"
            note(
                one_line(
                    f"POLICY({text}) is SCORE({policy.score}), meant for --predictor {policy.predictor}{threshold}",
                    _LONGEST_NOTE,
                )
            )
        schedulers.append(resolved.scheduler)
    return tuple(schedulers)


_LONGEST_NOTE = 1000


def options(
    shape: type[CheckedSettings], *only: str, once: Collection[str] = (), without: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that makes options of the fields of ``shape``.

    The command gets the given values as one object of that type, its first argument. The object also gets the command's
    own arguments and options that have a field's name. ``only`` names the fields to make options of; the default is all
    but the trace and those in ``without``. An option with several values may be repeated, unless ``once`` names its
    field.
    """
    names = only or tuple(name for name in shape.model_fields if name != "trace" and name not in without)

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_settings(**parameters: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            values = {name: parameters.pop(name) for name in shape.model_fields if name in parameters}
            values = {name: value for name, value in values.items() if source(name) is not ParameterSource.DEFAULT}
            values |= {name: (values[name],) for name in once if name in values}
            values = {name: _or_none(value, shape.model_fields[name]) for name, value in values.items()}
            if "schedulers" in values:
                values["schedulers"] = without_policies(values["schedulers"])
            if "scheduler" in values:
                [values["scheduler"]] = without_policies((values["scheduler"],))
            try:
                with importing():
                    settings = shape(**values)
            except InputError as error:
                raise _by_option(error, shape) from None
            return command(settings, **parameters)

        with_options: Callable[..., Any] = with_settings
        for name in reversed(names):
            with_options = _option(name, shape.model_fields[name], name in once)(with_options)
        return with_options

    return decorated


def _or_none(value: Any, field: FieldInfo) -> Any:
    """Return None for ``none``, alone or among several values, if the field may be None."""
    if type(None) not in _kinds(field.annotation):
        return value
    if isinstance(value, tuple):
        return tuple(None if single == "none" else single for single in value)
    return None if value == "none" else value


def _by_option(error: InputError, shape: type[CheckedSettings]) -> InputError:
    """Return the same error; if it begins with the name of a field, it names the option instead."""
    first, _, rest = str(error).partition(" ")
    name = first.partition(".")[0]
    return InputError(f"{_flag(name, shape.model_fields[name])} {rest}") if name in shape.model_fields else error


def check_used(settings: CheckedSettings, used: Collection[str], subject: str) -> None:
    """Raise InputError for options that were given and are not ``used`` for ``subject``."""
    fields = type(settings).model_fields
    unused = [_flag(name, fields[name]) for name in fields if name in settings.model_fields_set and name not in used]
    if unused:
        raise InputError(f"{subject} takes no {', '.join(unused)}")


def _flag(name: str, field: FieldInfo) -> str:
    """Return a field's name on the command line."""
    return f"--{(field.title or name).replace('_', '-')}"


def _option(name: str, field: FieldInfo, once: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of a field: its name, default and explanation.

    Click checks choices alone, which help shows; values and their bounds are checked where the settings are made of
    them.
    """
    flag, help_text, kinds = _flag(name, field), field.description, [*_kinds(field.annotation)]
    if field.annotation is bool:
        return click.option(flag, name, is_flag=True, help=help_text)
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), None)
    extra: Any = field.json_schema_extra or {}
    more: dict[str, Any] = {"type": click.BOOL if bool in kinds else click.Choice(choices) if choices else click.STRING}
    if not choices:
        more["metavar"] = extra.get("metavar") or next((_METAVARS[kind] for kind in kinds if kind in _METAVARS), None)
    if "bare" in extra:
        more |= {"is_flag": False, "flag_value": extra["bare"]}

    default = field.default
    if get_origin(field.annotation) is tuple:
        default = ["none" if value is None else value for value in default]
        default = default[0] if once else default
        more |= {} if once else {"multiple": True}
        help_text = help_text if once else f"{help_text} May be repeated."
    more["show_default"] = extra.get("default", default not in (None, "", []))
    # to click, None is a default too, and an option with a default is never missing
    more |= {"required": True} if field.is_required() else {"default": default}
    return click.option(flag, name, help=help_text, **more)


_METAVARS: dict[Any, str] = {int: "INTEGER", float: "NUMBER", Path: "PATH"}


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the plain types and the literals of which the type of a field is made."""
    if get_origin(annotation) is Literal or not get_args(annotation):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _kinds(part)


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[str]) -> None:
    """Raise InputError for an output that cannot be written or would overwrite a file in use.

    Call it before any work. Files in use are the inputs, or the files of a site in them, and the other outputs. An
    input may be a name of the catalogue.
    """
    if not any(outputs.values()):
        return
    from pipelines.readers.catalogue import load_catalogue
    from sim.slurm.lines import FILES

    names, catalogue = [name for name in inputs if name], load_catalogue()
    entries = [entry for name in names if (entry := catalogue.get(name)) is not None and entry.place and not entry.remote]
    read = {Path(name).resolve() for name in names} | {entry.path.resolve() for entry in entries}
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        with writing(path):
            target = path.resolve() if path.is_dir() else regular(path)
        if target in read or (target.exists() and target.parent in read and target.name in FILES):
            raise InputError(f"{option} {path}: would overwrite an input")
        if target in written:
            raise InputError(f"{option} {path}: is also the file of {written[target]}")
        written[target] = option
        nearest = next(parent for parent in target.parents if parent.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise InputError(f"{option} {path}: cannot be written: {nearest} is not a writable directory")


def load_machine(settings: TraceSettings) -> Machine | None:
    """Return the machine of ``--machine`` or, without ``--procs``, the catalogue's."""
    from pipelines.readers.read import find_entry

    if isinstance(settings, Campaign) and settings.machine is not None:
        from pipelines.readers.machine_file import read_machine
        from pipelines.readers.slurm.site import is_site

        if is_site(settings.machine):
            raise InputError(
                f"--machine {settings.machine}: is a Slurm site, which only queuecast simulate (under Slurm), parity and whatif replay"
            )
        return read_machine(settings.machine)
    entry = find_entry(settings.trace) if settings.procs is None else None
    return None if entry is None else entry.described


def read(settings: TraceSettings) -> tuple[Trace, str]:
    """Read TRACE by ``settings``; return it and the rule for jobs without a request."""
    from pipelines.readers.read import find_entry, read_trace

    entry = find_entry(settings.trace)
    trace = read_trace(
        settings.trace,
        procs=settings.procs,
        timezone=settings.timezone,
        **settings.model_dump(include={"processors", "cpus_per_node", "procs_from"}, exclude_none=True),
    )
    return trace, settings.missing_request or (entry.missing_request if entry else "drop")


def load(settings: TraceSettings, *, compiles: bool = True) -> CleanTrace:
    """Read and clean the trace of ``settings``, for their machine or the catalogue's.

    Dropped and altered jobs are reported on standard error, and compilation, if what follows ``compiles``.
    """
    from pipelines.readers.read import cleaned_for

    if compiles:
        from pipelines.cli.compiling import announce_compilation

        announce_compilation()
    machine = load_machine(settings)
    trace, missing_request = read(settings)
    cleaned = cleaned_for(machine, trace, missing_request, settings.procs)
    tell_cleaning(cleaned)
    if machine is not None and (unknown := machine.unknown_properties(cleaned.jobs)):
        listed = ", ".join(f"{word} ({count:,} jobs)" for word, count in unknown.items())
        note(
            one_line(
                f"{cleaned.name}: no node of {machine.name} has these properties, so jobs do not ask for them: {listed}",
                _LONGEST_NOTE,
            )
        )
    return cleaned


def tell_cleaning(cleaned: CleanTrace) -> None:
    """Report dropped and altered jobs, and doubts, on standard error."""
    from features.jobs.columns import held
    from features.jobs.usage import doubts

    touched = ", ".join(f"{words} {count:,}" for words, count in cleaned.touched().items())
    note(f"{cleaned.name}: {cleaned.jobs_read:,} jobs read, {len(held(cleaned)):,} kept" + (f" ({touched})" if touched else ""))
    warnings = (f"WARNING: {doubt}" for doubt in doubts(held(cleaned), cleaned.procs, held(cleaned, "rejected_jobs")))
    for text in (*cleaned.notes, *warnings):
        note(one_line(f"{cleaned.name}: {text}", _LONGEST_NOTE))
