"""Train candidates up to a date, judge and register them; name the versions to serve.

Candidates are trained and chosen only by jobs that had ended by the date, so the simulated jobs can judge the choice.
Consumers get the chosen model with the present histories. ``pipelines.training.promote`` has the rules for champions. A
night also notes its decisions and the drift of its inputs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.jobs.cleaning import AHEAD, BEHIND, CleanTrace
from features.jobs.drift import input_drift
from features.jobs.schema import fingerprint
from models.registry.as_served import performance_drift, recorded_means, served_means
from models.registry.candidates import TRAINERS
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS
from pipelines.lake.tables import read_features
from pipelines.report.night import alarms
from pipelines.training.judge import mean_accuracy
from pipelines.training.ledger import Ledger, ledger_of
from pipelines.training.promote import Promotion, promote
from pipelines.training.traces import TraceJudge, incumbent
from pipelines.training.work import Work, as_of, choose_cutoff
from sim.simulation import FROM_RECORD

NO_COMPARISON = "nothing was submitted in the last days"


def night_marks(judging: TraceJudge, result: Promotion, begun: Sequence[str]) -> dict[str, Any]:
    """Return a night's decisions and drift as metadata of the table ``runtime_model``.

    ``begun`` are the lines of :meth:`pipelines.training.work.Work.begin`.
    """
    clean, records, ledger, rival = judging.clean, judging.records, judging.ledger, judging.rival
    local = local_clock_s(records.jobs["submit_s"].to_numpy(np.int64), clean.origin_unix_s, clean.timezone)
    learned = rival.trained_until_s if rival is not None else records.until_s
    drift = input_drift(clean.jobs, records.end_s, local, records.until_s, learned, JUDGED_DAYS * DAY_S)
    method = rival.method.name if rival is not None and rival.method is not None else ""
    if result.promoted:
        method = judging.method_of(result.champion)
    performance = pd.DataFrame()
    if result.comparison is not None and rival is not None:
        now = served_means(judging.answered, "champion")
        performance = performance_drift(now, recorded_means(rival.tags), result.comparison.jobs)
    return {
        "row": _row(judging, result, method, alarms(drift, performance)),
        "notes": [*(f"{line[0].upper()}{line[1:]}." for line in begun), *_notes(judging, ledger)],
        "drift": drift.to_dict("records"),
        "performance": performance.to_dict("records"),
    }


def _row(judging: TraceJudge, result: Promotion, method: str, drifted: Sequence[str]) -> dict[str, Any]:
    """Return the night's row of ``nights``.

    Values are JSON's. Accuracies are mean shares over the judged window; evidence is of all jobs since the champion's
    training.
    """
    clean, rival, compared = judging.clean, judging.rival, result.comparison
    row: dict[str, Any] = {
        "night": judging.date.night,
        "until_s": judging.records.until_s,
        "fingerprint": fingerprint(clean.jobs),
        "jobs": len(clean.jobs),
        "new_jobs": judging.ledger.new_jobs,
        "gone_jobs": judging.ledger.gone_jobs,
        "champion": result.champion,
        "champion_before": judging.present.version if judging.present else "",
        "trained_version": rival.trained_version if rival is not None and not result.promoted else result.champion,
        "method": method,
        "challenger": result.challenger,
        "challenger_method": result.challenger_method,
        "promoted": result.promoted,
        "why": result.why,
        "judged_jobs": len(judging.window if rival is None else judging.answered),
        "champion_accuracy": compared.champion.value if compared else np.nan,
        "challenger_accuracy": compared.challenger.value if compared else np.nan,
        "difference": compared.difference.value if compared else np.nan,
        "low": compared.low if compared else np.nan,
        "high": compared.high if compared else np.nan,
        "evidence": compared.evidence.value if compared else np.nan,
        "evidence_needed": compared.evidence.needed if compared else np.nan,
        "drifted": ", ".join(drifted),
    }
    row |= {f"accuracy_{name}": value for name, value in _accuracies(judging.window).items()}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}


def _notes(judging: TraceJudge, ledger: Ledger) -> list[str]:
    notes, rejected = [], judging.clean.rejected_jobs
    for where, rule in (("ahead of", AHEAD), ("behind", BEHIND)):
        if count := int((rejected["rule"] == rule).sum()):
            jobs = f"job {where} the accounting's own clock was" if count == 1 else f"jobs {where} the accounting's own clock were"
            notes.append(f"{count:,} {jobs} left out (rejected_jobs, {rule}).")
    if (starts := judging.tags.get("history_starts", FROM_RECORD)) != FROM_RECORD:
        notes.append(f"Starts are {starts}.")
    if ledger.gone_jobs:
        notes.append(f"{ledger.gone_jobs:,} jobs of the earlier accounting changed or are missing now.")
    if not len(judging.date.judged(judging.records.jobs["submit_s"].to_numpy(np.int64))):
        notes.append(f"No comparison: {NO_COMPARISON}.")
    return notes


def _accuracies(window: pd.DataFrame) -> dict[str, float]:
    """Return the mean accuracy in the window of every column of predictions.

    All are over the same jobs: those that a champion answered, if there are at least ``FEWEST_JOBS`` of them. Otherwise
    they are over all jobs, and the champion's is NaN.
    """
    answered = window[window["champion"].notna()]
    enough = len(answered) >= FEWEST_JOBS
    means = {name: mean_accuracy(answered if enough else window, name) for name in ("requested", *TRAINERS)}
    return means | {"champion": mean_accuracy(answered, "champion") if enough else float("nan")}


def train(
    work: Work,
    clean: CleanTrace,
    *,
    until: str = "",
    warm_up_weeks: int | None = None,
    seed: int = 0,
) -> Promotion:
    """Train, judge and register candidates, and name the versions to serve; no alias moves.

    They learn up to the date of the work's night, or ``until`` (:func:`pipelines.training.work.choose_cutoff`, also for
    ``warm_up_weeks``). Writes ``runtime_model``, with metadata for the later stages, and in a night ``served``.
    Registers nothing if jobs and rule are unchanged. Raises InputError for a version that does not answer when it is
    loaded back, and for accounting that ends before the last night's.
    """
    lake, store = work.lake, work.store
    records = read_features(lake, clean)
    date = choose_cutoff(clean, records.end_s, night=work.night, until=until, warm_up_weeks=warm_up_weeks)
    begun = work.begin()
    ledger = ledger_of(lake, clean, date)
    present = incumbent(store, clean.name)
    tags = {**work.tags, "history_starts": records.source}
    judging = TraceJudge(store, date, clean, *as_of(clean, records, date.until_s), present, ledger, seed, tags)
    if date.night:
        lake.write("served", clean.name, judging.served, {"generated": clean.generated, "origin_unix_s": clean.origin_unix_s})

    result = promote(store, judging, present)
    champion = judging.up_to_date(records, result.champion)
    result = result.serving(champion)
    simulated, why = (result.simulated, result.instead) if date.follows else (champion, result.why)

    marks = {"nothing_new": result.nothing_new, "begun": begun, **date.marks, "simulated": simulated, "why": why}
    if date.night:
        marks["night"] = night_marks(judging, result, begun)
    lake.write_for(clean, "runtime_model", result.table(store, judging.kind), marks)
    beside = result.beside(work.store) if date.follows else lake.published().models(work.subject)
    lake.name_models(work.subject, {**beside, **result.serves})
    return result
