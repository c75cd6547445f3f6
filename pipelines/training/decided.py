"""The decisions and the drift of a night: its row, and facts for its page."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.jobs.cleaning import AHEAD, BEHIND
from features.jobs.drift import input_drift
from features.jobs.schema import fingerprint
from models.registry.candidates import TRAINERS
from models.registry.performance import performance_drift, recorded_means, served_means
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS
from pipelines.report.night import alarms
from pipelines.training.judge import mean_accuracy
from pipelines.training.ledger import Ledger
from pipelines.training.promote import Promotion
from pipelines.training.traces import TraceJudge
from sim.starts.history_starts import RECORDED

NO_COMPARISON = "nothing was submitted in the last days"


def night_marks(judging: TraceJudge, result: Promotion, begun: Sequence[str]) -> dict[str, Any]:
    """Return a night's decisions and drift as metadata of the table ``runtime_model``.

    ``begun`` are the lines of :meth:`pipelines.training.publish.Work.begin`.
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
    """Return the night's row of ``nights`` without :func:`pipelines.training.ledger.slowdowns`.

    Values are JSON's. Accuracies are mean shares over the judged window; evidence is of all jobs since the champion's training.
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
        "champion_underpredicts": getattr(compared, "champion_underpredicts", np.nan),
        "challenger_underpredicts": getattr(compared, "challenger_underpredicts", np.nan),
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
    if (starts := judging.tags.get("history_starts", RECORDED)) != RECORDED:
        notes.append(f"Starts are {starts}.")
    if ledger.gone_jobs:
        notes.append(f"{ledger.gone_jobs:,} jobs of the earlier accounting changed or are missing now.")
    if not len(judging.date.judged(judging.records.jobs["submit_s"].to_numpy(np.int64))):
        notes.append(f"No comparison: {NO_COMPARISON}.")
    return notes


def _accuracies(window: pd.DataFrame) -> dict[str, float]:
    """Return the mean accuracy in the window of every column of predictions.

    All are over the same jobs: those that a champion answered, if there are at least ``FEWEST_JOBS`` of them. Otherwise they are
    over all jobs, and the champion's is NaN.
    """
    answered = window[window["champion"].notna()]
    enough = len(answered) >= FEWEST_JOBS
    means = {name: mean_accuracy(answered if enough else window, name) for name in ("requested", *TRAINERS)}
    return means | {"champion": mean_accuracy(answered, "champion") if enough else float("nan")}
