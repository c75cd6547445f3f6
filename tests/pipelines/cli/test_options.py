"""Options are made of settings: each says, takes, shows and refuses what its field does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pipelines.cli.options import options
from pipelines.studies.questions import Protocol
from pipelines.training.run_settings import RunSettings
from sim.settings import Campaign, CheckedSettings, Learning, TraceSettings
from tests.support.command import queuecast

SWF = """; MaxProcs: 4
1 0 -1 100 2 -1 -1 2 200 -1 1 1 1 -1 -1 -1 -1 -1
2 10 -1 100 4 -1 -1 4 100 -1 1 2 1 -1 -1 -1 -1 -1
"""


def given(shape: type[CheckedSettings], *arguments: str, once: tuple[str, ...] = ()) -> CheckedSettings:
    """Return the settings that a command with the options of ``shape`` gets."""
    received: list[CheckedSettings] = []
    command = click.command()(click.argument("trace")(options(shape, once=once)(received.append)))
    done = CliRunner().invoke(command, ["log.swf", *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    [settings] = received
    return settings


@pytest.mark.parametrize("shape", [TraceSettings, Campaign, Protocol, RunSettings, Learning])
def test_without_options_a_command_gets_the_settings_defaults(shape: type[CheckedSettings]) -> None:
    settings = given(shape)
    assert settings == shape(trace="log.swf")
    assert settings.model_fields_set == {"trace"}, "what was not given is told from what was"


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (("--scheduler", "EASY", "--scheduler", "List"), {"schedulers": ("EASY", "List")}),
        (("--starvation", "none", "--starvation", "60"), {"starvation_s": (None, 60)}),
        (("--seed", "1", "--seed", "2", "--shake"), {"seeds": (1, 2), "shake_s": 60}),
        (("--shake", "5", "--replicates", "3"), {"shake_s": 5, "replicates": 3}),
        (("--dependencies", "--keep-first"), {"dependencies": True, "keep_first": True}),
        (("--load", "2", "--tau", "1.5"), {"load": 2.0, "taus_s": (1.5,)}),
        (("--machine", "a.toml", "--windows", "weeks"), {"machine": Path("a.toml"), "windows": "weeks"}),
        (("--time-zone", "Europe/Prague", "--cpus-per-node", "8"), {"timezone": "Europe/Prague", "cpus_per_node": 8}),
    ],
)
def test_options_become_fields(arguments: tuple[str, ...], fields: dict[str, Any]) -> None:
    settings = given(Campaign, *arguments)
    assert settings == Campaign(trace="log.swf", **fields)
    assert settings.model_fields_set == {"trace", *fields}


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("simulate", ("--procs", "0"), "--procs must be at least 1, not '0'"),
        ("simulate", ("--missing-request", "guess"), "'guess' is not one of 'drop', 'runtime', 'queue-max'"),
        ("simulate", ("--processors", "cores"), "'cores' is not one of 'cpus', 'nodes'"),
        ("simulate", ("--tau", "nan"), "--tau must be a finite number, not 'nan'"),
        ("simulate", ("--tau", "inf"), "--tau must be a finite number, not 'inf'"),
        ("simulate", ("--tau", "0"), "--tau must be above 0, not '0'"),
        ("simulate", ("--load", "nan"), "--load must be a finite number, not 'nan'"),
        ("simulate", ("--squeeze", "2000000"), "--squeeze must be at most 1e+06, not '2000000'"),
        ("simulate", ("--windows", "weeks"), "No such option"),
        ("simulate", ("--users", "shut"), "--users 'shut': known: open, closed"),
        ("simulate", ("--users", "closed", "--dependencies"), "--users closed and dependencies both say when jobs are submitted"),
        (
            "simulate",
            ("--machine", "a.toml", "--procs", "5"),
            "--machine a.toml says how many processors there are: give no --procs",
        ),
        ("campaign", ("--out", "x", "--starvation", "soon"), "--starvation must be a whole number, not 'soon'"),
        ("campaign", ("--out", "x", "--starvation", "-5"), "--starvation must be at least 0, not '-5'"),
        ("campaign", ("--out", "x", "--windows", "years"), "'years' is not one of 'whole', 'weeks', 'months'"),
        ("campaign", ("--out", "x", "--replicates", "2", "--seed", "1"), "--replicates and --seed exclude each other"),
        ("evaluate", ("--level", "1"), "--level must be below 1, not '1'"),
        ("evaluate", ("--predictor", "last2", "--baseline", "sp2"), "--baseline 'sp2' is not among the judged predictors: last2"),
        ("evaluate", ("--predictor", "last2", "--predictor", "last2"), "each predictor is judged once; last2 is given twice"),
        ("inspect", ("--cpus-per-node", "0"), "--cpus-per-node must be at least 1, not '0'"),
    ],
)
def test_what_a_field_refuses_is_refused_in_one_line(tmp_path: Path, command: str, arguments: tuple[str, ...], words: str) -> None:
    trace = tmp_path / "log.swf"
    trace.write_text(SWF)
    done = queuecast(command, str(trace), *arguments, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("queuecast: ")
    assert words in line
    assert [each.name for each in tmp_path.iterdir()] == ["log.swf"]
