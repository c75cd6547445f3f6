"""Make a registered model a predictor of the simulator that answers as served.

Each job is answered from the snapshot of the night before its submission. The version is loaded back from the registry. Its
learned part stays; its snapshot is made anew each midnight from the jobs that had ended by then. Before the date that divides the
trace there was no such model: there the request answers, and no job is judged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.packed.methods import LEVELS, PREDICTED, Method
from models.packed.runtime_predictor import RuntimePredictor
from models.registry.accounting import Accounting
from models.registry.as_served import serve
from models.registry.registration import trained_number, unrecorded
from models.registry.runtime_registration import RUNTIME, ask, load_version, trained_method
from models.registry.tracking import Tracking
from models.runtime.protocol import TablePredictor
from pipelines.lake.registry import PREFIX, quantile_table, replaced, submissions
from pipelines.training.cutoff import Cutoff, date_of, ended_jobs, midnights


@dataclass(frozen=True)
class ServedModel:
    """A version whose answers are simulated, and their difference from consumers' answers.

    ``off_s`` is the max difference in seconds between the answers of its files in the registry and the simulated ones, over
    ``asked`` submissions of the two days after its own snapshot. ``asked`` is 0 if the accounting before that snapshot has
    changed since the version was made.
    """

    model: str
    version: str
    method: str
    learned_until_s: int
    asked: int
    off_s: float
    trained: Method | None = None

    @property
    def agrees(self) -> bool:
        """Tell whether consumers get the answers that are simulated."""
        return self.off_s <= 1e-6


@dataclass(frozen=True)
class SimulatedModel(ServedModel):
    """A version as a ``predictor`` of the simulator."""

    predictor: TablePredictor = field(kw_only=True)


def served_model(name: str, version: str, clean: CleanTrace, records: Accounting, store: Tracking) -> ServedModel:
    """Load back a ``version`` of ``name``, and compare its answers.

    A version chosen by hand is not compared. Raises InputError if the version cannot be loaded.
    """
    registered = store.client.get_model_version(name, version)
    tags = dict(registered.tags)
    if unrecorded(tags, RUNTIME):
        return ServedModel(name, version, "chosen by hand", 0, 0, 0.0)
    trained = trained_number(store, registered)
    model, method = load_version(name, trained), trained_method(store, name.removeprefix("runtime-"), trained)
    learned = int(tags["training_window_s"].split("..")[1])
    return ServedModel(name, trained, method.name, learned, *_disagreement(model, tags, clean, records, method), method)


def simulated_model(
    name: str,
    version: str,
    clean: CleanTrace,
    records: Accounting,
    date: Cutoff,
    store: Tracking,
    *,
    shown: str = "",
    seen: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedModel:
    """Return a ``version`` of ``name`` as it would have served submissions from ``date`` on.

    Tables call it ``shown``. Raises InputError if chosen by hand, if not loadable and, unless ``seen``, if learned after ``date``.
    """
    served = served_model(name, version, clean, records, store)
    if served.learned_until_s > date.until_s and not seen:
        raise InputError(
            f"{shown or name}: has learned from jobs up to {date_of(clean, served.learned_until_s)}, and jobs from {date_of(clean, date.until_s)} on are "
            "simulated, so it would predict jobs that it was trained on; add (seen=yes) to simulate it anyway, with its results marked"
        )
    rows = date.judged(records.jobs["submit_s"].to_numpy(np.int64))
    if served.trained is None:
        raise InputError(f"models:/{name}/{version}: was chosen by hand, and cannot be simulated as served")
    answers = serve(served.trained, records, rows, midnights(clean, date.until_s), progress)
    request = clean.jobs["requested_s"].to_numpy(np.float64)
    seconds = replaced(request, rows, answers[PREDICTED])
    quantiles = quantile_table(request, rows, {level: answers[output] for output, level in LEVELS.items() if output in answers})
    predictor = TablePredictor(shown or f"{PREFIX}{name}", lambda _: seconds, quantiles=lambda _: quantiles)
    return SimulatedModel(**vars(served), predictor=predictor)


def _disagreement(
    model: RuntimePredictor, tags: Mapping[str, str], clean: CleanTrace, records: Accounting, method: Method
) -> tuple[int, float]:
    """Return the number of compared submissions, and the max difference to ``method`` (s).

    They are the first 200 of the two days after the snapshot of ``model``.
    """
    at_s = int(tags["training_window_s"].split("..")[1])
    if fingerprint(ended_jobs(clean, records.ended(at_s))) != tags.get("data_fingerprint"):
        return 0, 0.0
    submit = records.jobs["submit_s"].to_numpy(np.int64)
    rows = np.flatnonzero((submit > at_s) & (submit <= at_s + 2 * DAY_S))[:200]
    answers = ask(model, submissions(clean).iloc[rows].reset_index(drop=True))
    same = answers["snapshot_age_s"].to_numpy() == submit[rows] - at_s  # on the wall clock, one hour in autumn is ambiguous
    here = method.predict(records.served(rows, at_s))
    off = [np.abs(answers[name].to_numpy(np.float64) - seconds)[same] for name, seconds in here.items()]
    return int(same.sum()), float(np.max(off, initial=0.0))
