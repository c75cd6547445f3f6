"""Make a registered model a predictor of the simulator that answers as served.

Each job is answered from the snapshot of the night before its submission. The version is loaded back from the registry. Its
learned part stays; its snapshot is made anew each midnight from the jobs that had ended by then. Before the date that divides the
trace there was no such model: there the request answers, and no job is judged.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.packed.methods import LEVELS, PREDICTED, Method
from models.registry.accounting import Accounting
from models.registry.as_served import serve
from models.registry.registration import trained_number, unrecorded
from models.registry.runtime_registration import RUNTIME, trained_method
from models.registry.tracking import Tracking
from models.runtime.protocol import TablePredictor
from pipelines.lake.registry import PREFIX, quantile_table, replaced
from pipelines.training.cutoff import Cutoff, date_of, midnights


@dataclass(frozen=True)
class ServedModel:
    """A version whose answers are simulated, by its number of the training.

    ``predictor`` is it in the simulator, if it was asked for.
    """

    model: str
    version: str
    method: str
    learned_until_s: int
    trained: Method
    predictor: TablePredictor | None = None


def served_model(name: str, version: str, store: Tracking) -> ServedModel:
    """Read the method of a ``version`` of ``name``; raise InputError if it cannot be read."""
    registered = store.client.get_model_version(name, version)
    if missing := unrecorded(registered.tags, RUNTIME):
        raise InputError(f"models:/{name}/{version}: has no readable tag {missing}, so it cannot be simulated as served")
    trained = trained_number(store, registered)
    method = trained_method(store, name.removeprefix("runtime-"), trained)
    learned = int(registered.tags["training_window_s"].split("..")[1])
    return ServedModel(name, trained, method.name, learned, method)


def simulated_model(
    name: str,
    version: str,
    clean: CleanTrace,
    records: Accounting,
    date: Cutoff,
    store: Tracking,
    *,
    shown: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ServedModel:
    """Return a ``version`` of ``name`` as it would have served submissions from ``date`` on.

    Tables call it ``shown``. Raises InputError if it cannot be loaded, or if it learned after ``date``.
    """
    served = served_model(name, version, store)
    if served.learned_until_s > date.until_s:
        raise InputError(
            f"{shown or name}: has learned from jobs up to {date_of(clean, served.learned_until_s)}, and jobs from {date_of(clean, date.until_s)} on are "
            "simulated, so it would predict jobs that it was trained on"
        )
    rows = date.judged(records.jobs["submit_s"].to_numpy(np.int64))
    answers = serve(served.trained, records, rows, midnights(clean, date.until_s), progress)
    request = clean.jobs["requested_s"].to_numpy(np.float64)
    seconds = replaced(request, rows, answers[PREDICTED])
    quantiles = quantile_table(request, rows, {level: answers[output] for output, level in LEVELS.items() if output in answers})
    predictor = TablePredictor(shown or f"{PREFIX}{name}", lambda _: seconds, quantiles=lambda _: quantiles)
    return replace(served, predictor=predictor)
