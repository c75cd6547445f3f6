"""Compare a registered version, loaded back as consumers load it, with its answers here."""

import numpy as np

from features.clock import local_clock_s
from features.errors import InputError, first_line
from features.jobs.cleaning import CleanTrace
from models.packed.methods import Method
from models.registry.accounting import Accounting
from models.registry.loading import consumer_model
from models.registry.registration import Candidate
from models.registry.runtime_registration import RUNTIME, ask
from models.registry.tracking import Tracking
from pipelines.lake.registry import submissions

ASKED_BACK = 200
"""Number of last submissions that a version loaded back from the registry is asked about."""
_TOLERANCE = 1e-9


def verified(store: Tracking, clean: CleanTrace, records: Accounting, candidate: Candidate, method: Method) -> dict[str, bool]:
    """Return checks of a version of ``method``, by answers to the last submissions.

    It runs before any alias points to the version. Raises InputError if the version is damaged: it does not load, does not
    answer, or fails a check, such as answers in 1..request that equal those of ``method`` here. A submission in an hour that the
    wall clock shows twice has more than one answer and is not compared.
    """
    name = f"runtime-{clean.name}"
    count = min(ASKED_BACK, len(clean.jobs))
    rows, until = np.arange(len(clean.jobs) - count, len(clean.jobs)), records.until_s
    questions = submissions(clean).tail(count).reset_index(drop=True)
    try:
        answers = ask(consumer_model(name, candidate.version, RUNTIME.name), questions)
    except Exception as error:  # a model may raise anything while it loads or predicts
        reason = first_line(error)
        raise InputError(
            f"{name}/{candidate.version} ({candidate.method}) does not answer when it is loaded back: {reason}"
        ) from error
    expected = method.predict(records.served(rows, until))
    age = records.jobs["submit_s"].to_numpy(np.int64)[rows] - until
    seconds = answers[list(expected)].to_numpy(np.float64)
    request = questions["requested_s"].to_numpy(np.float64)[:, None]
    compared = ~_twice_on_the_clock(records, rows)
    off = np.abs(seconds - np.column_stack(list(expected.values())))[compared]
    tags = store.client.get_model_version(name, candidate.version).tags
    checks = {
        "it loads back and predicts": len(seconds) == count,
        "it predicts finite seconds in 1..request": bool((np.isfinite(seconds) & (seconds >= 1) & (seconds <= request)).all()),
        "it answers as in this process": bool((off <= _TOLERANCE * np.maximum(seconds[compared], 1.0)).all()),
        "it has the histories of now": bool((answers["snapshot_age_s"].to_numpy() == age)[compared].all()),
        "it carries its data's fingerprint": tags.get("data_fingerprint") == candidate.tags["data_fingerprint"],
    }
    if failed := [check for check, passed in checks.items() if not passed]:
        raise InputError(
            f"{name}/{candidate.version} ({candidate.method}) failed these checks on the last submissions: {', '.join(failed)}"
        )
    return checks


def _twice_on_the_clock(records: Accounting, rows: np.ndarray) -> np.ndarray:
    """Return which submissions are ambiguous on the site's wall clock, bool [rows].

    In autumn submissions half an hour or an hour apart share a local time.
    """
    submit = records.jobs["submit_s"].to_numpy(np.int64)[rows]
    clock = [local_clock_s(submit + shift, records.origin_unix_s, records.timezone) for shift in (0, -3600, -1800, 1800, 3600)]
    return np.any([other == clock[0] for other in clock[1:]], axis=0)
