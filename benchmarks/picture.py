"""The picture of the README: what predictors change on KTH-SP2. ``python -m benchmarks.picture`` writes it. Needs the traces under ``--shared``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.pages import HOUSE, SHARED
from benchmarks.schedules import load
from pipelines.report.plots import metrics_by_combination
from sim import simulate
from sim.comparison import compare
from sim.frontier import Policy

RENEWED = "conditional(when=pass)"
POLICIES = (
    Policy("EASY", "requested"),
    *(
        Policy("EASY", name, correction)
        for name, correction in (("last2", "tsafrir"), ("lightgbm", "tsafrir"), ("quantile", RENEWED))
    ),
    Policy("EASY", "clairvoyant"),
    Policy("EASY-SJBF", "requested"),
    *(Policy("EASY-SJBF", name, fix) for name, fix in (("last2", "tsafrir"), ("lightgbm", "tsafrir"), ("quantile", RENEWED))),
    Policy("EASY-SJBF", "clairvoyant"),
    Policy("EASY-SRF", "quantile", RENEWED),
    Policy("EASY-SRF", "clairvoyant"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    trace = load("KTH-SP2", parser.parse_args().shared)
    schedules = [
        simulate(trace.jobs, procs=trace.procs, trace=trace.name, clock=trace.clock, **policy._asdict()) for policy in POLICIES
    ]
    image = metrics_by_combination(compare(schedules), ("EASY", "requested"), generated=False)
    (HOUSE / "docs" / "kth-sp2.png").write_bytes(image)


if __name__ == "__main__":
    main()
