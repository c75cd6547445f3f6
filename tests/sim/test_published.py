"""Published results and reference schedules, whole traces, job by job."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from features.jobs.schema import conform
from sim import Schedule, evaluate, simulate
from tests.conftest import SHARED, needs_shared

pytestmark = needs_shared

PROCS = {"kth-sp2": 100, "sdsc-sp2": 128}
PER_EVENT = {
    "easy_requested": ("EASY", "requested", "requested"),
    "easy_clairvoyant": ("EASY", "clairvoyant", "requested"),
    "sjbf_clairvoyant": ("EASY-SJBF", "clairvoyant", "requested"),
    "sjbf_last2_tsafrir": ("EASY-SJBF", "last2", "tsafrir"),
    "sjbf_nag_requested": ("EASY-SJBF", "cv-triple(over=100*square,under=square,weight=short-wide)", "requested"),
}


@cache
def reference(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A reference file and its jobs as a canonical table."""
    table = pd.read_parquet(SHARED / "schedules" / f"{name}.parquet")
    columns = {"job_id": table["job_id"], "submit_s": table["submit"], "runtime_s": table["runtime"]}
    columns |= {"procs": table["procs"], "requested_s": table["requested"], "user": table["user"].astype("str")}
    jobs = conform(columns, len(table)).astype({"runtime_s": "int64", "procs": "int64", "requested_s": "int64"})
    return table, jobs


@cache
def per_event(trace: str, scheduler: str, predictor: str, correction: str) -> Schedule:
    _, jobs = reference(trace)
    return simulate(
        jobs, procs=PROCS[trace], scheduler=scheduler, predictor=predictor, correction=correction, semantics="per-event"
    )


@pytest.mark.parametrize("trace", PROCS)
@pytest.mark.parametrize("column", PER_EVENT)
def test_per_event_schedules_equal_the_reference_for_every_job(trace: str, column: str) -> None:
    table, _ = reference(trace)
    replayed = per_event(trace, *PER_EVENT[column]).jobs
    assert np.array_equal(replayed["start_s"], table[f"start_{column}"])
    if f"predicted_{column}" in table:
        assert np.array_equal(replayed["predicted_s"], table[f"predicted_{column}"])
        assert np.array_equal(replayed["corrections"], table[f"corrections_{column}"])


@pytest.mark.parametrize(
    ("file", "procs", "scheduler", "predictor", "column", "published"),
    [
        ("kth-sp2-per-second", 100, "Strict", "requested", "start_strict_fcfs", 6814.9733),
        ("kth-sp2-per-second", 100, "List", "requested", "start_list_fcfs", 71.4535),
        ("kth-sp2-per-second", 100, "EASY", "requested", "start_easy_requested", 92.6877),
        ("kth-sp2-per-second", 100, "EASY-SJBF", "requested", "start_sjbf_requested", 69.3936),
        ("kth-sp2-per-second", 100, "JustBF", "requested", "start_justbf_requested", 101.8269),
        ("kth-sp2-per-second", 100, "SAF-JustBF", "requested", "start_saf_justbf_requested", 45.1127),
        ("kth-sp2-per-second", 100, "SAF-JustBF", "clairvoyant", "start_saf_justbf_clairvoyant", 20.9843),
        ("kth-sp2", 100, "EASY", "clairvoyant", "start_easy_clairvoyant", 71.7224),
        ("sdsc-sp2", 128, "EASY", "clairvoyant", "start_easy_clairvoyant", 70.4779),
    ],
)
def test_published_schedules_come_out_for_every_job(
    file: str, procs: int, scheduler: str, predictor: str, column: str, published: float
) -> None:
    table, jobs = reference(file)
    schedule = simulate(jobs, procs=procs, scheduler=scheduler, predictor=predictor)
    assert np.array_equal(schedule.jobs["start_s"], table[column])
    assert evaluate(schedule)["mean_bounded_slowdown"] == pytest.approx(published, abs=5e-5)


PUBLISHED = SHARED / "reference" / "sc15_published.csv"
UNKNOWN = dict.fromkeys(("trace", "scheduler", "prediction", "correction"), "?")
ROWS = pd.read_csv(PUBLISHED).to_dict("records") if SHARED.is_dir() else [UNKNOWN]  # one, so that its skip is counted


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: "{trace} {scheduler} {prediction} {correction}".format(**row))
def test_published_results_of_2015_come_out(row: dict) -> None:
    predictor = "requested*2" if row["prediction"] == "2x requested" else row["prediction"]
    correction = "requested" if row["correction"] == "none" else row["correction"]
    schedule = per_event(row["trace"], row["scheduler"], predictor, correction)
    metrics = evaluate(schedule)
    assert metrics["jobs"] == row["jobs"]
    assert metrics["mean_bounded_slowdown"] == pytest.approx(row["mean_bounded_slowdown"], rel=1e-12)
    assert metrics["max_bounded_slowdown"] == pytest.approx(row["max_bounded_slowdown"], rel=1e-12)
    if not np.isnan(row["mean_flow_time_s"]):
        assert metrics["mean_response_s"] == pytest.approx(row["mean_flow_time_s"], rel=1e-12)


def test_a_point_of_the_published_grid_that_hangs_on_the_order_of_operations() -> None:
    triple = "cv-triple(over=1*square,under=1*absolute,threshold=600,weight=large-area)"
    metrics = evaluate(per_event("sdsc-sp2", "EASY", triple, "requested"))
    assert metrics["mean_bounded_slowdown"] == pytest.approx(80.481332, abs=5e-7)
