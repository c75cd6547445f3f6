"""One line for whatever ends a command: its cause, cut, without control characters, and a defect only where it is one."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from dagster import DagsterResourceFunctionError
from mlflow.exceptions import MlflowException

import pipelines.cli as command_line
from features.errors import InputError, one_line, printable
from features.limits import MESSAGE
from pipelines.cli import tell
from pipelines.lake.files import csv_text, figures_text


def caught(raising) -> BaseException:
    try:
        raising()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def wrapped(error: Exception) -> Exception:
    """As libraries wrap the database's own error."""
    try:
        try:
            raise error
        except Exception as inner:
            raise RuntimeError("the store failed") from inner
    except RuntimeError as outer:
        return outer


def in_a_resource(error: Exception) -> Exception:
    """As Dagster wraps it."""
    return DagsterResourceFunctionError(
        "Error executing resource_fn", user_exception=error, original_exc_info=(type(error), error, None)
    )


def no_memory() -> None:
    np.empty((1 << 60,), np.uint8)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("a.swf:3: field 2 is 'x'"), 2, "a.swf:3: field 2 is 'x'"),
        (in_a_resource(InputError("another run of small is running")), 2, "another run of small is running"),
        (click.BadParameter("is not a number"), 2, "Invalid value: is not a number"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "a"), 2, "a: No such file or directory"),
        (OSError(errno.ENOSPC, "No space left on device", "/lake/a"), 1, "/lake/a: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/lake/a"), 2, "/lake/a: Permission denied"),
        (wrapped(OSError(errno.EIO, "Input/output error", "a")), 1, "a: Input/output error"),
        (sqlite3.OperationalError("database is locked"), 1, "a database of the site: database is locked; `queuecast doctor`"),
        (wrapped(sqlite3.DatabaseError("file is not a database")), 1, "a database of the site: file is not a database"),
        (wrapped(MlflowException("request to http://u:hidden@mlflow:5000/x failed")), 1, "a database, a registry or"),
        (caught(no_memory), 1, "there is not enough memory"),
        (MemoryError(), 1, "there is not enough memory"),
    ],
)  # fmt: skip
def test_each_end_has_its_line_and_code(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(error) == code
    err = capsys.readouterr().err
    assert err.startswith(f"queuecast: {line}")
    assert err.count("\n") == 1
    assert "hidden" not in err


def test_long_and_hostile_messages_are_one_cut_line(capsys: pytest.CaptureFixture[str]) -> None:
    for message in ("begin " + "x" * 2_000_000 + " end", "a\nb\n" * 90_000, "\x1b[31mred\x07\x9b\u202e" * 50, "\udcff\x00"):
        tell(InputError(message))
        err = capsys.readouterr().err.removesuffix("\n")
        assert len(err) <= MESSAGE
        assert err.isprintable()
    assert one_line("path " + "x" * 500 + " the cause").endswith(" the cause")
    assert printable("a\tb\nc\x1b") == "a\tb\nc\\x1b"


def test_a_defect_ends_with_its_traceback_and_a_line_but_no_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("of s3://user:planted@bucket/x?key=planted")

    monkeypatch.setattr(command_line, "cli", broken)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "ZeroDivisionError: of s3://***@bucket/x" in err
    assert err.splitlines()[-1].startswith("queuecast: a defect of Queuecast's own: please report")


def test_titles_and_names_give_the_terminal_no_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    title = r"[bold]x[/nothing] [link=http://a]y\u001b]0;owned\u0007"
    (tmp_path / "queuecast.toml").write_text(f'[traces.hostile]\nplace = "a[/b].swf"\ntitle = "{title}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    listed = CliRunner().invoke(command_line.cli, ["traces"])
    assert listed.exit_code == 0, listed.output
    assert r"[bold]x[/nothing] [link=http://a]y\x1b]0;owned\x07" in " ".join(listed.output.split())
    assert "\x1b" not in listed.output


def test_figures_are_the_same_on_processors_that_add_up_in_another_order() -> None:
    # the last digits of a published interval, as two processors computed them
    here, elsewhere = (
        pd.DataFrame({"metric": ["awf_s"], "low": [low], "weeks": [15]}) for low in (-0.5124436900371, -0.5124436900371001)
    )
    assert csv_text(here) != csv_text(elsewhere)
    assert figures_text(here) == figures_text(elsewhere) == "metric,low,weeks\nawf_s,-0.512443690037,15\n"
