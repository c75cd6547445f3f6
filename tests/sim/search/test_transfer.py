"""What is chosen, what it is compared with, and how sure a sum of weeks is."""

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from sim.search.transfer import RECORDED, TESTING, TRAINING, Split, better, last_of, optimum, split_of, sums


def test_the_papers_weeks_are_taken_for_its_traces_and_halves_for_others() -> None:
    weeks = range(1, 104)
    paper = split_of(weeks, "SDSC-SP2-filtered", "weeks")
    assert (paper.training[0], paper.training[-1], paper.testing[0], paper.testing[-1]) == (28, 64, 65, 100)
    assert split_of(range(1, 46), "kth-sp2-1996-2", "weeks").testing == tuple(range(23, 46))
    assert split_of([1, 2, 4, 7, 8], "other", "weeks") == Split((1, 2), (4, 7, 8))
    assert split_of(range(1, 24), "sdsc-sp2", "months") == Split(tuple(range(1, 11)), tuple(range(11, 24)))
    assert split_of(range(1, 7), "sdsc-sp2", "months") == Split((1, 2, 3), (4, 5, 6)), "ten months would leave none"
    assert split_of(range(1, 7), "sdsc-sp2", "weeks") == Split((1, 2, 3), (4, 5, 6)), "a part of the trace has halves"
    assert (last_of("sdsc-sp2", "weeks"), last_of("sdsc-sp2", "months"), last_of("other", "weeks")) == (100, None, None)


def test_given_weeks_are_taken_as_far_as_they_have_jobs() -> None:
    assert split_of([1, 2, 4, 5], "t", "weeks", (1, 2, 3), (5, 6)) == Split((1, 2), (5,))
    with pytest.raises(InputError, match="no weeks of the trace is for testing: those with jobs are 1 to 5"):
        split_of([1, 2, 5], "t", "weeks", (1,), (9,))
    with pytest.raises(InputError, match="weeks 2 are for training and for testing"):
        split_of([1, 2, 5], "t", "weeks", (1, 2), (2, 5))


def test_of_equal_directions_the_one_in_their_middle_is_taken() -> None:
    directions = np.array([[1.0, 0.0], [0.5, 0.5], [0.4, 0.6], [0.0, 1.0]])
    assert optimum(directions, np.array([2.0, 2.0, 3.0, 1.0])) == (3, 1)
    assert optimum(directions, np.array([2.0, 2.0, 3.0, 2.0])) == (1, 3)


def table(values: dict[str, list[list[float]]]) -> pd.DataFrame:
    """Return replays of policies: a list of weeks a seed, the recorded one first."""
    rows = [
        {"seed": seed, "week": week, "policy": policy, "tau_s": 10.0, "mean_bounded_slowdown": value, "max_wait_s": 60 * value}
        for policy, replays in values.items()
        for seed, weeks in enumerate(replays, RECORDED)
        for week, value in enumerate(weeks, 1)
    ]
    return pd.DataFrame(rows)


def test_sums_are_of_the_recorded_replay_and_changes_of_the_shaken_ones() -> None:
    split = Split((1, 2), tuple(range(3, 9)))
    base = [[1.0, 2.0, *[10.0] * 6], [1.0, 2.0, *[10.0] * 6], [1.0, 2.0, *[10.0] * 6]]
    lucky = [[1.0, 1.0, *[5.0] * 6], [1.0, 3.0, *[11.0] * 6], [1.0, 3.0, *[13.0] * 6]]  # better only as recorded
    found = sums(table({"SAF": base, "w*": lucky}), split).set_index(["policy", "part"])
    assert found.loc[("w*", TRAINING), "sum"] == 2.0
    row = found.loc[("w*", TESTING)]
    assert (row["sum"], row["windows"], row["replicates"], row["max_wait_s"]) == (30.0, 6, 2, 300.0)
    assert row["relative"] == pytest.approx(0.2)
    assert row["low"] < 0.1 < 0.3 < row["high"], "the interval holds both replicates"
    assert row["better"] == 0.0
    assert found.loc[("SAF", TESTING), "better"] == 0.5
    assert found.loc[("w*", TRAINING), ["low", "better"]].isna().all(), "two weeks are too few for an interval"


def test_the_probability_is_over_weeks_and_replicates() -> None:
    theirs = np.full((2, 10), 2.0)
    weeks = theirs + np.where(np.arange(10) < 5, 1.0, -1.0)
    assert 0.4 < better(weeks, theirs, 2000, 0) < 0.6
    replicates = theirs + np.array([[1.0], [-1.0]])
    assert better(replicates, theirs, 2000, 0) == pytest.approx(0.5, abs=0.05), "one replicate better, one worse"
    assert better(theirs - 0.1, theirs, 200, 0) == 1.0
