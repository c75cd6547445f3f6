"""Measure what passes without an event move, from shaken replays of two traces.

``python -m benchmarks.studies.semantics`` prints the page docs/studies/semantics.md, ``--write`` makes it and the table
beside it. Needs KTH-SP2 and SDSC-SP2 under ``--shared``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES, made_by
from benchmarks.common.tables import markdown
from features.jobs.cleaning import clean
from pipelines.ingest.swf import read_swf
from pipelines.storage.atomic import replacing
from sim.campaigns.campaign import Campaign, run_campaign

TRACES = {"KTH-SP2": "KTH-SP2-filtered.swf.gz", "SDSC-SP2": "SDSC-SP2-filtered.swf.gz"}
POLICIES = (
    ("EASY", "last2", "tsafrir"),
    ("EASY-SJBF", "last2", "tsafrir"),
    ("EASY", "okcm", "tsafrir(steps=okcm)"),
    ("EASY-SJBF", "okcm", "tsafrir(steps=okcm)"),
    ("EASY-SJBF", "nag", "tsafrir"),
)
PLAIN = "per-second"
OPTIONS = ("per-second(expiry=pass)", "per-second(every=30)")
METRICS = {"mean_wait_s": "mean wait", "mean_bounded_slowdown": "bounded slowdown"}
SHAKE_S, REPLAYS = 60, 10
PAGE = STUDIES / "semantics.md"


def measured(shared: Path, replays: int) -> pd.DataFrame:
    """A row a trace, policy, semantics and replay, with ``METRICS``.

    Replay 0 is shaken like the others.
    """
    tables = []
    for title, file in TRACES.items():
        trace = clean(read_swf(shared / "traces" / file))
        for scheduler, predictor, correction in POLICIES:
            asked = Campaign(
                (scheduler,), (predictor,), (correction,), (PLAIN, *OPTIONS), seeds=tuple(range(replays)), shake_s=SHAKE_S
            )
            table = run_campaign(trace.jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)
            tables.append(table.assign(title=title))
    return pd.concat(tables, ignore_index=True)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return changes against plain semantics by trace, policy, option and metric.

    Over replays: mean, its standard error, min and max.
    """
    keys = ["title", "scheduler", "predictor", "correction"]
    rows = []
    for policy, part in table.groupby(keys, sort=False):
        for metric in METRICS:
            values = part.pivot(index="seed", columns="semantics", values=metric)
            for option in OPTIONS:
                change = (values[option] / values[PLAIN] - 1.0).to_numpy()
                low, high = change.min(), change.max()
                error = change.std(ddof=1) / np.sqrt(len(change))
                found = {"option": option, "metric": metric, "change": change.mean(), "error": error, "low": low, "high": high}
                rows.append(dict(zip(keys, policy, strict=True)) | found | {"plain": values[PLAIN].mean()})
    return pd.DataFrame(rows)


HEAD = """# What do passes without an event change?

Published simulators run a scheduling pass when a job is submitted or ends. Where a running job outlives its prediction, the plan of what is running
grows longer and nothing else happens until the next event, although jobs that wait might fit now that the reservation is later. Li & Zhang (OKCM) run a
pass then; real schedulers run one every so many seconds. Both are options of semantics:

* `per-second(expiry=pass)`: a pass in each second in which a prediction expires while jobs wait;
* `per-second(every=30)`: a pass at each multiple of 30 of the trace's seconds while jobs wait (second 0 is the trace's origin, not the first job);
* both together, and the same with `per-event`. There the pass for the predictions that expire in a second comes before its submissions and ends, the
  timer's behind them.

Mean change of a metric against plain `per-second` over {replays} replays of each trace, all submissions moved by up to {shake} s (the same moves for
each semantics), and in brackets the min and max of them, which is no interval of the mean. Lower is better.
"""

TAIL = """
What this does not show: which semantics is right for a machine. Brackets that include 0 say that one replay may well show the opposite sign. Where nothing
expires (requested times, exact runtimes) a pass at an expired prediction changes nothing, and one by a timer nothing either for orders that do not change
while jobs wait. Schedules are chaotic: each of these passes may let some job start earlier, and all that follows is another schedule.

The data: [data/semantics.csv](data/semantics.csv).
"""


def page(found: pd.DataFrame, replays: int) -> str:
    """The page as Markdown, a row a trace and policy."""
    heads = [f"{METRICS[metric]}, `{option.removeprefix(PLAIN)[1:-1]}`" for metric in METRICS for option in OPTIONS]
    rows = []
    keys = ["title", "scheduler", "predictor", "correction"]
    for (title, scheduler, predictor, correction), part in found.groupby(keys, sort=False):
        cells = [told(part, metric, option) for metric in METRICS for option in OPTIONS]
        rows.append([str(title), str(scheduler), f"{predictor} / {correction}", *cells])
    table = markdown(["trace", "scheduler", "predictor / correction", *heads], rows, keys=3)
    return "\n".join([HEAD.format(replays=replays, shake=SHAKE_S), table, TAIL, made_by("studies.semantics"), ""])


def told(part: pd.DataFrame, metric: str, option: str) -> str:
    """One cell."""
    row = part[(part["metric"] == metric) & (part["option"] == option)].iloc[0]
    return f"{row['change']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--write", action="store_true", help="write the page and its data")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="shaken replays of each trace")
    options = parser.parse_args()
    found = changes(measured(options.shared, options.replays))
    text = page(found, options.replays)
    if not options.write:
        print(text)
        return
    files: Mapping[Path, bytes] = {
        PAGE: text.encode(),
        STUDIES / "data" / "semantics.csv": found.to_csv(index=False, float_format="%.6g").encode(),
    }
    for path, content in files.items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)


if __name__ == "__main__":
    main()
