"""Predictions as they are served: from the snapshot of the last night before the submission, by a model trained that night.

A model judged on histories up to the second of each submission looks better than it is in service, where a user's jobs that ended
since the night are not known (4 to 5 points of accuracy on KTH-SP2 and SDSC-SP2). Here every job is answered from what accounting held at the last night
before its submission: jobs that had ended by then and, since accounting lists what has ended, no running ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.history import history
from features.inputs import model_inputs
from features.snapshot import snapshot
from models.packed.methods import PREDICTED, Method
from models.packed.snapshot_inputs import KNOWN, History
from models.trainers import TRAINERS, train


@dataclass(frozen=True)
class Accounting:
    """Ended jobs: a cleaned canonical table in order of submission, their starts int64 [jobs], and the model inputs known at each submission.

    ``inputs`` (``features.inputs.model_inputs``) go by histories up to the second. ``origin_unix_s`` and ``timezone`` as in ``features.clock``.
    """

    jobs: pd.DataFrame
    start_s: np.ndarray
    inputs: pd.DataFrame
    origin_unix_s: int | None = None
    timezone: str | None = None
    end_s: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "end_s", self.start_s + self.jobs["runtime_s"].to_numpy(np.int64))

    @property
    def until_s(self) -> int:
        """The last instant it tells of: the last end."""
        return int(self.end_s.max())

    def ended(self, at_s: int) -> np.ndarray:
        """Rows of the jobs that had ended by ``at_s``."""
        return np.flatnonzero(self.end_s <= at_s)

    def train(self, name: str, at_s: int, seed: int) -> Method:
        """The method ``name`` as a night at ``at_s`` trains it: on what accounting held then, whatever it tells of those jobs' time today."""
        rows = self.ended(at_s)
        if not len(rows):
            return train(name, self.inputs.iloc[:0], np.empty(0), seed)
        then = accounting(self.jobs.iloc[rows], self.start_s[rows], self.origin_unix_s, self.timezone)
        return train(name, then.inputs, then.jobs["runtime_s"].to_numpy(np.float64), seed)

    def snapshot(self, at_s: int) -> pd.DataFrame:
        """``features.snapshot.snapshot`` as a night at ``at_s`` takes it."""
        rows = self.ended(at_s)
        return snapshot(self.jobs.iloc[rows], self.start_s[rows], at_s)

    def served_inputs(self, rows: np.ndarray, at_s: int) -> pd.DataFrame:
        """Model inputs of the jobs ``rows`` from the snapshot at ``at_s``."""
        nobody_yet = History([], np.empty((0, len(KNOWN))), None)
        users = History.from_frame(self.snapshot(at_s)) if len(self.ended(at_s)) else nobody_yet
        asked = self.jobs.iloc[rows]
        submit = asked["submit_s"].to_numpy(np.int64)
        return users.inputs(
            pd.DataFrame(
                {
                    "user": asked["user"].astype(object).to_numpy(),
                    "procs": asked["procs"].to_numpy(),
                    "requested_s": asked["requested_s"].to_numpy(),
                    "submit_s": submit,
                    "local_s": local_clock_s(submit, self.origin_unix_s, self.timezone),
                },
                index=asked.index,
            )
        )


def accounting(
    jobs: pd.DataFrame, start_s: np.ndarray, origin_unix_s: int | None = None, timezone: str | None = None
) -> Accounting:
    """:class:`Accounting` of ended jobs, the inputs made here. Raises what ``features.history.history`` raises."""
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), origin_unix_s, timezone)
    return Accounting(jobs, start_s, model_inputs(jobs, history(jobs, start_s, local)), origin_unix_s, timezone)


Models = dict[tuple[str, int], Method]
"""Trained methods by name and the instant of their night: training is most of a night's cost, and the next nights ask for them again."""
ServedBy = Callable[[int, np.ndarray], Iterable[tuple[np.ndarray, str, Method]]]
"""Who answered the jobs ``rows`` submitted after the night at an instant: groups of (mask [rows], version, method)."""


def nobody(at_s: int, rows: np.ndarray) -> Iterable[tuple[np.ndarray, str, Method]]:
    """No champion answered."""
    return ()


def predict_served(
    known: Accounting,
    rows: np.ndarray,
    instants: Sequence[int],
    *,
    names: Sequence[str] = tuple(TRAINERS),
    models: Models | None = None,
    champion: ServedBy = nobody,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """What the jobs ``rows`` were answered, or would have been, a row a job in the order of ``rows``; all submitted at or after ``instants[0]``.

    Columns: ``job_id submit_s end_s runtime_s user`` of the job, ``at_s`` (the night's instant), ``requested``, and for each of ``names``
    the seconds predicted by the model of that night from its snapshot and, as ``<name>_now``, by the same model from the history up to the
    second; ``champion`` (NaN where nobody answered) and ``champion_version``. No model has seen the job it predicts, nor anything that
    ended after its night. Ascending ``instants``. ``models`` holds what was trained before and takes what is trained now.
    """
    models = {} if models is None else models
    submit = known.jobs["submit_s"].to_numpy(np.int64)[rows]
    night = np.searchsorted(np.asarray(instants, np.int64), submit, side="right") - 1
    if len(rows) and night.min() < 0:
        raise ValueError("jobs were submitted before the first night")
    table = pd.DataFrame(
        {
            "job_id": known.jobs["job_id"].to_numpy()[rows],
            "submit_s": submit,
            "end_s": known.end_s[rows],
            "runtime_s": known.jobs["runtime_s"].to_numpy(np.int64)[rows],
            "user": known.jobs["user"].astype("str").fillna("").to_numpy()[rows],
            "at_s": np.asarray(instants, np.int64)[night],
            "requested": known.jobs["requested_s"].to_numpy(np.float64)[rows],
        }
    )
    for column in (*(each for name in names for each in (name, f"{name}_now")), "champion"):
        table[column] = np.nan
    table["champion_version"] = pd.array([""] * len(rows), dtype="str")

    def one(number: int) -> tuple[np.ndarray, dict[str, np.ndarray], list[tuple[np.ndarray, str, np.ndarray]]]:
        at, mine = int(instants[number]), np.flatnonzero(night == number)
        now, then = known.inputs.iloc[rows[mine]], known.served_inputs(rows[mine], at)
        answers: dict[str, np.ndarray] = {}
        for name in names:
            if (name, at) not in models:
                models[name, at] = known.train(name, at, seed)
            answers[name] = models[name, at].answer(then)[PREDICTED]
            answers[f"{name}_now"] = models[name, at].answer(now)[PREDICTED]
        groups = champion(at, rows[mine])
        return (
            mine,
            answers,
            [(mine[mask], who, method.answer(then[mask])[PREDICTED]) for mask, who, method in groups if mask.any()],
        )

    numbers = np.unique(night).tolist()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # nights know nothing of each other
        for done, (mine, answers, said) in enumerate(pool.map(one, numbers)):
            for column, seconds in answers.items():
                table.loc[mine, column] = seconds
            for where, who, seconds in said:
                table.loc[where, "champion"] = seconds
                table.loc[where, "champion_version"] = who
            if progress is not None:
                progress(done + 1, len(numbers))
    return table
