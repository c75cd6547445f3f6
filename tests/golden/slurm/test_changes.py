"""Changes made on a real Slurm after they were predicted, against the predictions."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

KEPT = Path(__file__).parent / "changes"


def mean_wait(name: str) -> float:
    """Return the mean wait of the two recorded runs of a setting: seconds."""
    waits = []
    for run in ("A", "B"):
        rows = pd.read_csv(KEPT / f"{name}-{run}.txt.gz", sep="|", parse_dates=["Submit", "Start"])
        jobs = rows[~rows["JobID"].astype(str).str.contains(".", regex=False)]
        waits.append((jobs["Start"] - jobs["Submit"]).dt.total_seconds().mean())
    return sum(waits) / 2


def test_six_changes_made_on_a_real_slurm_lie_within_what_was_predicted() -> None:
    predicted = pd.read_csv(KEPT / "predicted.csv")
    names = predicted["change"].str.replace("'", "").str.replace(" ", "-")
    actual = names.map(mean_wait) / mean_wait("before") - 1
    assert len(actual) == 6
    assert (actual * predicted["relative"] > 0).all()
    assert actual.between(predicted["low"], predicted["high"]).all()
