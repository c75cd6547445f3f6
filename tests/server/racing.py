"""Writers and readers of one subject, processes of their own: each version holds one number, in every table and its page."""

from __future__ import annotations

import os
import random

import pandas as pd

from features.errors import InputError
from pipelines.storage.home import home
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import alone

SUBJECT, NAME, TABLES = "runtime-raced", "raced", ("jobs", "schedules", "user_history")


def publish(draft: str) -> int:
    """Publish a number; return it. Raises InputError while another process is at it."""
    lake, number = Lake(home() / "lake", draft), random.randrange(1 << 40)
    with alone(home(), NAME):
        for table in TABLES:
            lake.write(table, NAME, pd.DataFrame({"number": [number]}))
        lake.write_page(f"{NAME}.html", SUBJECT, str(number))
        lake.versions(SUBJECT).publish(draft)
    return number


def write_forever() -> None:
    """Publish again and again, until killed; print what came of each attempt."""
    count = 0
    while True:
        count += 1
        try:
            publish(f"draft-{os.getpid()}-{count}")
            print("published", flush=True)
        except InputError as error:
            print("refused" if "is running" in str(error) else error, flush=True)


def read_forever() -> None:
    """Read again and again, until killed; say whether each version was whole."""
    while True:
        if Lake(home() / "lake").has("jobs", NAME):
            numbers = set(seen().values())
            print("whole" if len(numbers) == 1 else f"mixed: {numbers}", flush=True)


def seen() -> dict[str, int]:
    """Return the number in each table of the current version."""
    lake = Lake(home() / "lake").at_once(SUBJECT)
    return {table: int(lake.read(table, NAME)[0]["number"].iloc[0]) for table in TABLES}
