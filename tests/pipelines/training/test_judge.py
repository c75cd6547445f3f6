"""Which candidate is the challenger, how answers are simulated, and from which nights a retraining without nights judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from models.packed.methods import PREDICTED, LightGBM, Quantile
from models.registry.as_served import STRAGGLERS, JudgedWindow, quantile_columns
from models.registry.promotion import JUDGED_DAYS
from models.runtime.protocol import TablePredictor
from pipelines.lake.tables import features_of
from pipelines.training.judge import answers_table, judge, judging_instants, rows_served
from pipelines.training.simulate import campaign, champion_answers
from sim import simulate
from tests.support.arriving import arriving

DAYS = 60


def answered(jobs: int = 6000, seed: int = 0) -> pd.DataFrame:
    """Jobs of 40 users answered by a champion and two candidates: ``last2`` better until the last days, ``lightgbm`` for the last few jobs."""
    rng = np.random.default_rng(seed)
    end = np.sort(rng.integers(1, DAYS * DAY_S, jobs))
    runtime = np.full(jobs, 1000.0)
    late, recent = np.arange(jobs) >= jobs - 12, end > (DAYS - JUDGED_DAYS) * DAY_S
    noise = rng.uniform(-100, 100, jobs)
    return pd.DataFrame(
        {
            "submit_s": end - 1,
            "end_s": end,
            "at_s": np.maximum(end // DAY_S * DAY_S, 0),
            "runtime_s": runtime.astype(np.int64),
            "user": [f"user{number}" for number in rng.integers(0, 40, jobs)],
            "champion": 600.0 + noise,
            "champion_version": "1",
            "last2": np.where(recent, 602.0, 650.0) + noise,
            LightGBM.name: np.where(late, 1000.0, 600.0 + noise),
            **dict.fromkeys(quantile_columns("champion").values(), np.nan),
        }
    )


def verdict(served: pd.DataFrame, names=("last2", LightGBM.name), version="1"):
    until = DAYS * DAY_S
    recent = served[served["end_s"] > until - JUDGED_DAYS * DAY_S]
    return judge(served, recent, names, (version, 0), until)


def test_of_the_candidates_with_enough_evidence_the_most_accurate_challenges() -> None:
    served = answered()
    challenger, fought, _ = verdict(served)
    assert challenger == "last2"
    assert fought.evidence.enough
    challenger, fought, _ = verdict(
        served.assign(last2=np.where(served["end_s"] > (DAYS - JUDGED_DAYS) * DAY_S, served["last2"], served["champion"]))
    )
    assert challenger == LightGBM.name  # of none is there evidence, so the most accurate of the last days
    assert not fought.evidence.enough


def test_jobs_that_another_champion_answered_do_not_judge() -> None:
    assert verdict(answered(), version="2")[1].evidence.units == 0


def window(until_s: int) -> JudgedWindow:
    since_s = until_s - JUDGED_DAYS * DAY_S
    return JudgedWindow(since_s, since_s - STRAGGLERS * DAY_S, until_s)


def test_retrainings_on_several_days_ask_for_the_same_nights() -> None:
    trained, until = 1_000_003, 1_000_003 + 50 * DAY_S + 4321
    first, second = (judging_instants(window(until + later), trained) for later in (0, DAY_S))
    assert set(second[:-1]) <= set(first)
    assert first[0] <= until - (JUDGED_DAYS + STRAGGLERS) * DAY_S
    assert first[-1] < until
    assert {(each - trained) % DAY_S for each in first} == {0}
    fresh = judging_instants(window(until), until - 5 * DAY_S)
    assert fresh[0] <= until - (JUDGED_DAYS + STRAGGLERS) * DAY_S
    assert until - 5 * DAY_S in fresh
    assert len(judging_instants(window(until), None)) == JUDGED_DAYS + STRAGGLERS


@pytest.fixture(scope="module")
def crowded():
    clean = replace(arriving(jobs=5000), procs=24)
    record = features_of(clean)
    runtime = clean.jobs["runtime_s"].to_numpy(np.float64)
    requested = clean.jobs["requested_s"].to_numpy(np.float64)
    served = pd.DataFrame(
        {
            "job_id": clean.jobs["job_id"],
            "submit_s": clean.jobs["submit_s"],
            "end_s": record.end_s,
            "user": clean.jobs["user"].astype("str").fillna(""),
            "at_s": int(clean.jobs["submit_s"].iloc[0]),
            "requested": requested,
            "champion": runtime,
            "inverse": np.maximum(requested - runtime, 1.0),
        }
    )
    return clean, record, served


def test_harm_weighs_the_quantiles_that_were_served_and_easy_goes_by_the_point(crowded) -> None:
    clean, record, served = crowded
    rows = np.arange(len(served))
    point = served["requested"].to_frame(PREDICTED)
    wide = point.join(pd.DataFrame({0.5: 0.2 * served["requested"], 0.95: served["requested"]}))
    mixed = served.sample(frac=1, random_state=0).index
    place = rows_served(record, rows, served.loc[mixed])
    with pytest.raises(ValueError, match=f"{len(rows)} of {len(rows)} jobs were not answered"):
        rows_served(record, rows, served.assign(user="hashed since"))
    tables = [answers_table(name, each.loc[mixed].iloc[place]) for name, each in (("point", point), ("wide", wide))]
    schedules = campaign(clean, ("EASY", "Harm"), ["prior", *tables])
    assert [each.predictor for each in schedules if each.scheduler == "Harm"] == ["prior", "point", "wide"]
    start = {(each.scheduler, each.predictor): each.jobs["start_s"].to_numpy() for each in schedules}
    assert (start["EASY", "point"] == start["EASY", "wide"]).all()
    assert (start["Harm", "point"] != start["Harm", "wide"]).any()
    table = TablePredictor("wide", lambda _: served["requested"].to_numpy(), quantiles=lambda _: wide[[0.5, 0.95]])
    again = simulate(clean.jobs, procs=clean.procs, scheduler="Harm", predictor=table)
    assert (start["Harm", "wide"] == again.jobs["start_s"]).all()


def test_jobs_that_no_champion_answered_have_the_stand_in_s_answer_and_those_without_quantiles_their_point() -> None:
    served = pd.DataFrame(
        {
            "requested": [900.0, 900.0, 900.0],
            "champion": [40.0, 50.0, np.nan],
            **{column: [100 * level, np.nan, np.nan] for level, column in quantile_columns("champion").items()},
            **{Quantile.name: [1.0, 2.0, 70.0], "last2": [3.0, 4.0, 80.0]},
            **{column: [1.0, 2.0, 70.0 + 100 * level] for level, column in quantile_columns(Quantile.name).items()},
        }
    )
    answers = champion_answers(served, Quantile.name)
    levels = [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95]
    assert list(answers) == [PREDICTED, *levels]
    expected = [[40, *(100 * np.array(levels))], [50] * 10, [70, *(70 + 100 * np.array(levels))]]
    np.testing.assert_array_equal(answers, expected)
    assert champion_answers(served.iloc[1:], "last2").to_numpy().tolist() == [[50], [80]]
    assert champion_answers(served, "retired")[PREDICTED].tolist() == [40, 50, 900]
