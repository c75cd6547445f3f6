"""Make the table and figure of thirty nights of KTH-SP2, and what asking one model costs.

First ``queuecast nights kth-sp2.swf.gz --start 250 --home HOME``, then
``python -m benchmarks.studies.nights HOME [--write]``. Times are medians of 200 predictions of one row in one
process, schema enforcement included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import mlflow

from benchmarks.common.pages import STUDIES, made_by
from benchmarks.common.tables import write_parts
from pipelines.dated.replay import own_registry
from pipelines.report.night import nights_table
from pipelines.report.night_plots import over_nights
from pipelines.report.table import Table
from pipelines.storage.lake import Lake

PREDICTIONS = 200
PAGE = STUDIES / "nights.md"


def cost(home: Path, trace: str) -> str:
    """Median milliseconds to load and to ask the newest version of each method."""
    found: dict[str, int] = {}
    for version in own_registry(home).client.search_model_versions(f"name = 'runtime-{trace}'"):
        found[version.tags["method"]] = max(found.get(version.tags["method"], 0), int(version.version))
    rows = []
    for method, number in sorted(found.items()):
        loads, asks = [], []
        for _ in range(11):
            began = time.perf_counter()
            model = mlflow.pyfunc.load_model(f"models:/runtime-{trace}/{number}")
            loads.append(time.perf_counter() - began)
        assert model.input_example is not None
        asked = model.input_example.head(1)
        for _ in range(PREDICTIONS):
            began = time.perf_counter()
            model.predict(asked)
            asks.append(time.perf_counter() - began)
        rows.append((method, f"{1e3 * statistics.median(loads):.0f} ms", f"{1e3 * statistics.median(asks):.1f} ms"))
    return Table("", ("method", "load", "predict one row"), rows).markdown()


def main() -> None:
    """Print the tables; with ``--write`` put them and the figure into the page."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("home", type=Path, help="the --home of a replay")
    arguments.add_argument("--write", action="store_true", help="put table and figure into docs/studies/nights.md")
    asked = arguments.parse_args()
    home = asked.home.absolute()
    for path in sorted((home / "lake" / "nights").iterdir()):
        nights, metadata = Lake(home / "lake").read("nights", path.name)
        table = nights_table(nights).markdown()
        print(table, cost(home, path.name), made_by("studies.nights"), sep="\n\n")
        if asked.write:
            write_parts(PAGE, {"nights": table}, rows=every_third)
            PAGE.with_suffix(".png").write_bytes(over_nights(nights, bool(metadata["generated"]), image="png"))


def every_third(_: object, cells: Sequence[str]) -> bool:
    """Keep promotions and every third day of a month."""
    return "promoted" in cells or int(cells[0][-2:]) % 3 == 1


if __name__ == "__main__":
    main()
