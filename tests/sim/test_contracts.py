"""Every predictor and scheduler keeps the contract, and what breaks a rule is found by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from models.runtime.protocol import TablePredictor
from sim import contracts, simulate
from sim.contracts import BrokenContract, check_predictor, check_scheduler
from sim.settings import ALL
from tests.support.fresh import seeds

SCHEDULERS = [
    *("EASY", "EASY-SJBF", "SAF-EASY-SPF", "EASY(reservations=3)", "EASY(plans=requested)", "JustBF", "SAF-JustBF", "Conservative"),
    *("List", "Strict", "MIXED(0.5,0.25,-0.25)-EASY", "SCORE(r**a*n-wait; a=0.5)-EASY-SPF"),
    *("Harm", "PlanRS", "OrigBF", "OrigBF(reservations=anew)"),
]
WITH_OPTIONS = ["nag(eta=100)", "knn(k=3,window=30)", "okcm(switch=3,weights=shared)", "sp(x=20)"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ALL, "prior", *(pytest.param(each, marks=pytest.mark.thorough) for each in WITH_OPTIONS)])
def test_every_predictor_keeps_the_contract(name: str) -> None:
    check_predictor(name)


def test_a_predictor_that_knows_runtimes_says_so() -> None:
    check_predictor("clairvoyant", knows_runtimes=True)
    with pytest.raises(BrokenContract, match=r"the prediction of job \d+ depends on what is known only after job"):
        check_predictor("clairvoyant")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "semantics"),
    [
        *((name, "per-second") for name in SCHEDULERS[::2]),
        *(pytest.param(name, "per-second", marks=pytest.mark.thorough) for name in SCHEDULERS[1::2]),
        ("EASY", "per-event"),
        *(pytest.param(name, "per-event", marks=pytest.mark.thorough) for name in SCHEDULERS[1:-4]),
    ],
)
def test_every_scheduler_keeps_the_contract(name: str, semantics: str) -> None:
    predictor = "prior" if name == "Harm" else "last2"
    for seed in seeds(1):
        check_scheduler(name, predictor=predictor, semantics=semantics, seed=seed)


class Mean:
    """The mean runtime of what has ended, in plain Python; subclasses break one rule each."""

    name = "mean"

    def begin(self, jobs: pd.DataFrame) -> None:
        self.jobs, self.ran = jobs, []

    def submitted(self, job: int, now_s: int) -> None: ...

    def started(self, job: int, now_s: int) -> None: ...

    def ended(self, job: int, now_s: int) -> None:
        self.ran.append(int(self.jobs["runtime_s"].iloc[job]))

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return float(np.mean(self.ran)) if self.ran else float(self.jobs["requested_s"].iloc[job])


class Remembers(Mean):
    ran: list[int] = []  # noqa: RUF012

    def begin(self, jobs: pd.DataFrame) -> None:
        self.jobs, self.ran = jobs, getattr(self, "ran", [])


class Guesses(Mean):
    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return float(np.random.default_rng().integers(1, 100_000))


class LooksAhead(Mean):
    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return float(self.jobs["requested_s"].iloc[job:].mean())


class Ignores(Mean):
    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return 60.0


def of_all_runtimes(jobs: pd.DataFrame) -> np.ndarray:
    return np.full(len(jobs), float(jobs["runtime_s"].mean()))


@pytest.mark.thorough
@pytest.mark.slow
def test_a_predictor_in_plain_python_keeps_it_too() -> None:
    check_predictor(Mean, plain=Mean)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Remembers, "the same jobs get other predictions"),
        (Guesses, "the same jobs get other predictions the second time"),
        (LooksAhead, "depends on what is known only after job"),
        (Ignores, "nothing was checked"),
        (lambda: TablePredictor("mean of all", of_all_runtimes), "depends on what is known only after job"),
    ],
    ids=["remembers", "guesses", "looks ahead", "ignores", "knows the mean"],
)
def test_a_predictor_that_breaks_a_rule_is_found(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(BrokenContract, match=says):
        check_predictor(make)


@pytest.mark.slow
def test_another_form_of_a_predictor_is_found() -> None:
    with pytest.raises(BrokenContract, match="in plain Python it predicts differently"):
        check_predictor(Mean, plain="last2")


def early(jobs: pd.DataFrame, start: pd.Series) -> pd.Series:
    return jobs["submit_s"] - 1


def at_once(jobs: pd.DataFrame, start: pd.Series) -> pd.Series:
    return jobs["submit_s"]


def by_the_last_job(jobs: pd.DataFrame, start: pd.Series) -> pd.Series:
    return start + (jobs["procs"].iloc[-1] > 1) if len(jobs) > 1 else start


def by_name(jobs: pd.DataFrame, start: pd.Series) -> pd.Series:
    return start + int(jobs["user"].cat.categories[0].startswith("a"))


def by_the_clock(jobs: pd.DataFrame, start: pd.Series) -> pd.Series:
    return start + int(jobs["submit_s"].iloc[0] > 500_000)


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (early, "starts before its submission"),
        (at_once, "more processors than there are"),
        (by_the_last_job, "changes starts before it|though all jobs fit"),
        (by_name, "names of users change the schedule"),
        (by_the_clock, "a week later"),
    ],
)
def test_a_scheduler_that_breaks_a_rule_is_found(
    breaks: Callable[[pd.DataFrame, pd.Series], pd.Series], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(jobs: pd.DataFrame, **policy: Any) -> Any:
        schedule = simulate(jobs, **policy)
        start = breaks(jobs, schedule.jobs["start_s"])
        return replace(schedule, jobs=schedule.jobs.assign(start_s=start, end_s=start + schedule.jobs["runtime_s"]))

    def together(jobs: pd.DataFrame, asked: Any, *, procs: int) -> list[Any]:
        return [broken(jobs, procs=procs, scheduler=asked.schedulers[0])]

    monkeypatch.setattr(contracts, "simulate", broken)
    monkeypatch.setattr(contracts, "campaign_schedules", together)
    with pytest.raises(BrokenContract, match=says):
        check_scheduler("EASY")
