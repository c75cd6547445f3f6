"""``queuecast predict``: runtimes for submissions in a file, by a registered model."""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd

from features.errors import InputError


@click.command()
@click.option("--model", "spec", required=True, help="NAME[@ALIAS] of the registry; champion by default.")
@click.argument("jobs", type=click.Path(path_type=Path))
def command(spec: str, jobs: Path) -> None:
    """Predict the jobs in JOBS (.csv or .parquet with user, procs, requested_s, submit_time) and print them as CSV with predicted_s."""
    table = read_submissions(jobs)
    from pipelines.registry import predict_registered

    answers = predict_registered(spec, table[["user", "procs", "requested_s", "submit_time"]])
    click.echo(pd.concat([table, answers], axis=1).to_csv(index=False), nl=False)


def read_submissions(path: Path) -> pd.DataFrame:
    """The submissions in a CSV or Parquet file with the types a model wants; InputError with file, line and cause."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    try:
        table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype="str", keep_default_na=False)
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    missing = [name for name in ("user", "procs", "requested_s", "submit_time") if name not in table.columns]
    if missing:
        raise InputError(f"{path}:1: lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    table["user"] = table["user"].astype("str")
    for name in ("procs", "requested_s"):
        numbers = pd.to_numeric(table[name], errors="coerce")
        _refuse(path, table[name], numbers.isna() | (numbers < 1) | (numbers % 1 != 0), "is not a whole number of at least 1")
        table[name] = numbers.astype("int64")
    times = pd.to_datetime(table["submit_time"], errors="coerce")
    _refuse(path, table["submit_time"], times.isna(), "is not a time such as 2026-03-01 09:00:00")
    if times.dt.tz is not None:
        raise InputError(f"{path}: submit_time is the wall clock at the site, without a zone")
    table["submit_time"] = times.astype("datetime64[ns]")
    return table


def _refuse(path: Path, column: pd.Series, wrong: pd.Series, what: str) -> None:
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        raise InputError(f"{path}:{row + 2}: {column.name} {column.iloc[row]!r} {what} ({int(wrong.sum())} such rows)")
