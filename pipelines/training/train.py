"""Train candidates up to a date, judge and register them; name the versions to serve.

Candidates are trained and chosen only by jobs that had ended by the date, so the simulated jobs can judge the choice. Consumers
get the chosen model with the present histories. ``pipelines.training.promote`` has the rules for champions.
"""

from features.jobs.cleaning import CleanTrace
from pipelines.lake.runtime_features import read_features
from pipelines.training.cutoff import as_of, choose_cutoff
from pipelines.training.decided import night_marks
from pipelines.training.ledger import ledger_of
from pipelines.training.promote import Promotion, promote
from pipelines.training.publish import Work
from pipelines.training.traces import Memo, TraceJudge, incumbent


def train(
    work: Work,
    clean: CleanTrace,
    *,
    until: str = "",
    warm_up_weeks: int | None = None,
    seed: int = 0,
    memo: Memo | None = None,
) -> Promotion:
    """Train, judge and register candidates, and name the versions to serve; no alias moves.

    They learn up to the date of the work's night, or ``until`` (:func:`pipelines.training.cutoff.choose_cutoff`, also for ``warm_up_weeks``).
    Writes ``runtime_model``, with metadata for the later stages, and in a night ``served``. Registers nothing if jobs and rule are
    unchanged. Raises InputError for a version that does not answer when it
    is loaded back, and for accounting that ends before the last night's.
    """
    lake, store, memo = work.lake, work.store, memo or Memo()
    records = read_features(lake, clean)
    date = choose_cutoff(clean, records.end_s, night=work.night, until=until, warm_up_weeks=warm_up_weeks)
    begun = work.begin()
    ledger = ledger_of(lake, clean, date)
    if ledger.gone_jobs:
        memo.models.clear()
    present = incumbent(store, clean.name)
    tags = {**work.tags, "history_starts": records.source}
    judging = TraceJudge(store, date, clean, *as_of(clean, records, date.until_s), present, ledger, seed, tags, memo)
    ledger.keep(lake, clean, lambda: judging.served)

    result = promote(store, judging, present)
    if result.promoted:
        memo.champions[result.champion] = judging.trained[judging.method_of(result.champion)]
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
