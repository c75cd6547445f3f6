"""Set what else Li & Zhang show of OKCM beside what is at hand: latency, rivals, figures 1, 3 and 4.

``python -m benchmarks.papers.okcm_beside`` prints that part of docs/studies/okcm.md, ``--write`` replaces it there and in its data.
Needs the traces under ``--shared``; accuracies of rivals are those of docs/studies/data/runtime-prediction.csv. Takes a minute.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED, STUDIES, made_by
from benchmarks.common.tables import markdown, write_parts
from benchmarks.studies.schedules import load
from features.jobs.cleaning import CleanTrace
from sim import simulate
from sim.predictions.at_once import predict_at_once

PART = "what else the paper shows"
TRACES = ("SDSC-SP2", "KTH-SP2", "LANL-CM5", "ALCF-Theta")
RIVALS = ("svr", "lightgbm")
LATENCY_S, GAP, WITHIN_A_MINUTE = 0.003, (3.3, 6.3), 0.7
"""Published: seconds a job at the most, points above the rivals, share of CEA-Curie's jobs that come within a minute of the job before."""
STEPS, REPEATS = 5, 5
TOLD = """## What else the paper shows

**Latency.** OKCM is said to learn and predict in less than {latency} s a job. Here it takes {microseconds} µs of processor time a job (the walk at once
above, median of {repeats}, the table below): thousands of times less. The paper names neither its machine nor its language; ours is compiled.

**SVR and LightGBM.** The paper has OKCM {gap[0]} to {gap[1]} points above both, in a figure whose values are not in its text, with settings that it does not
give. Here, with our settings, on whole traces and with runtimes known when jobs end ([runtime-prediction.md](runtime-prediction.md)): {rivals}.

{accuracies}

**Figure 1** is of CEA-Curie, where {curie:.0%} of jobs come less than a minute after the job before; the trace is not at hand. **Figure 4** shows the
correction of Tsafrir et al. with the steps that OKCM's authors name, and no values in its text; here it is `tsafrir(steps=okcm)` under EASY, of jobs that
outlive OKCM's prediction. **Figure 3**, the runtimes of user 176 of ANL-Intrepid, is missing: that trace is not at hand.

{facts}

{made}
"""


def accuracies() -> pd.DataFrame:
    """Return accuracies in per cent by predictor and trace, of whole traces, from the page about predictors."""
    rows = pd.read_csv(STUDIES / "data" / "runtime-prediction.csv")
    rows = rows[rows["section"].str.startswith("tables: ") & rows["table"].str.contains(", the whole trace: ")]
    wide = rows.pivot(index=["section", "line"], columns="column", values="value").reset_index()
    wide["trace"], wide["value"] = (
        wide["section"].str.removeprefix("tables: "),
        wide["accuracy, %"].str.split().str[0].astype(float),
    )
    return wide.pivot(index="predictor", columns="trace", values="value")


def microseconds(trace: CleanTrace, predictor: str = "okcm") -> float:
    """Return the processor time of learning and predicting, microseconds a job, median of some runs after one that does not count."""
    taken = []
    for _ in range(REPEATS + 1):
        began = time.process_time()
        predict_at_once(trace.jobs, procs=trace.procs, predictor=predictor, clock=trace.clock)
        taken.append(time.process_time() - began)
    return 1e6 * statistics.median(taken[1:]) / len(trace.jobs)


def within_a_minute(submit_s: np.ndarray) -> float:
    """Return the share of jobs that are submitted less than a minute after the job before."""
    return float((np.diff(submit_s) < 60).mean())


def by_corrections(corrections: np.ndarray) -> list[float]:
    """Return which share of jobs that outlive a prediction end within 1, 2, ... corrections."""
    outlived = corrections[corrections > 0]
    return [float((outlived <= step).mean()) for step in range(1, STEPS + 1)]


def part(shared: Path, argv: Sequence[str] | None = None) -> str:
    """Return the part of the page as Markdown."""
    traces = {title: load(title, shared) for title in TRACES}
    took = {title: microseconds(trace) for title, trace in traces.items()}
    rows = []
    for title, trace in traces.items():
        made = simulate(trace.jobs, procs=trace.procs, predictor="okcm", correction="tsafrir(steps=okcm)", clock=trace.clock).jobs
        shares = by_corrections(made["corrections"].to_numpy())
        near = within_a_minute(trace.jobs["submit_s"].to_numpy(np.int64))
        rows.append([title, f"{took[title]:.1f}", f"{near:.0%}", *(f"{share:.0%}" for share in shares)])
    known = accuracies()
    told = [
        f"on {title} it has {known.at['okcm', title]:.1f} %, "
        + " and ".join(f"`{name}` {known.at[name, title]:.1f} %" for name in RIVALS)
        for title in known.columns
    ]
    return TOLD.format(
        latency=LATENCY_S,
        microseconds=f"{min(took.values()):.1f} to {max(took.values()):.1f}",
        repeats=REPEATS,
        faster=1e6 * LATENCY_S / max(took.values()),
        gap=GAP,
        rivals="; ".join(told),
        accuracies=markdown(
            ["accuracy, %", *known.columns],
            [[name, *(f"{known.at[name, title]:.1f}" for title in known.columns)] for name in ("okcm", *RIVALS)],
        ),
        curie=WITHIN_A_MINUTE,
        facts=markdown(
            [
                "",
                "OKCM, µs a job",
                "submitted within a minute",
                "ended after 1 correction",
                *(f"{step}" for step in range(2, STEPS + 1)),
            ],
            rows,
        ),
        made=made_by("papers.okcm_beside", argv),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--write", action="store_true", help="replace the part in docs/studies/okcm.md, and its data")
    options = parser.parse_args(argv)
    text = part(options.shared, argv)
    if options.write:
        write_parts(STUDIES / "okcm.md", {PART: text})
    else:
        print(text)


if __name__ == "__main__":
    main()
