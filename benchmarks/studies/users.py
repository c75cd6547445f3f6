"""Measure what users that react change: the load of schedulers, and the ranking of predictors.

``python -m benchmarks.studies.users`` prints the page docs/studies/users.md, ``--write`` makes it, its picture and the table
beside it. Needs KTH-SP2 and LANL-CM5 under ``--shared``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES
from benchmarks.studies.users_page import page, picture
from benchmarks.studies.users_runs import REPLAYS, by_halves, carried, choices, loads, means, ranking, traces
from pipelines.storage.atomic import replacing

PAGE = STUDIES / "users.md"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--keep", type=Path, help="folder of results to use again")
    parser.add_argument("--write", action="store_true", help="write the page, its picture and its data")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="shaken replays of each policy")
    options = parser.parse_args(argv)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    found = traces(options.shared)
    kth = found["KTH-SP2"]
    simulated = [loads(found, options.replays, options.keep)]
    simulated += [make(kth, options.replays, options.keep) for make in (ranking, by_halves, choices)]
    table = means(pd.concat(simulated, ignore_index=True))
    text = page(found, table, carried(kth), options.replays)
    if not options.write:
        print(text)
        return
    files: Mapping[Path, bytes] = {
        PAGE: text.encode(),
        STUDIES / "users.png": picture(table),
        STUDIES / "data" / "users.csv": table.to_csv(index=False, float_format="%.6g").encode(),
    }
    for path, content in files.items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)


if __name__ == "__main__":
    main()
