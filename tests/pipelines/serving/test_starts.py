"""What a service answers about starts, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fastapi import FastAPI

from features.clock import DAY_S, local_clock_s
from models.packed.queue_state import NOT_YET, QueueJobs
from models.packed.start_predictor import CHANCES, HAZARD, QUANTILES, RECENT, StartPredictor
from models.registry.packing import assemble
from models.registry.start_registration import start_content
from models.starts.evaluation import quality
from pipelines.serving.app import Service, application
from pipelines.serving.asked_log import AskedLog, started
from pipelines.serving.models import Served
from tests.pipelines.serving.conftest import KIND, NOW_S, Registry, asked
from tests.support.learning import ORIGIN_S, ZONE
from tests.support.queues import start_model

NAME, MACHINE = "start-made", 64
CLOCK_S = int(local_clock_s(np.array([NOW_S - ORIGIN_S]), ORIGIN_S, ZONE)[0])


@pytest.fixture(scope="module")
def predictor(tmp_path_factory) -> StartPredictor:
    """Return a packed model of made states."""
    model = start_model(NOW_S - ORIGIN_S - DAY_S, MACHINE, ORIGIN_S, ZONE)
    return StartPredictor(assemble(tmp_path_factory.mktemp("starts"), "start", start_content(model).write).data)


@pytest.fixture
def registry(versions, predictor) -> Registry:
    return Registry({**versions, "9": predictor.model}, {"champion": "9", "running": KIND["quantile(order=accuracy)"]})


def service(registry: Registry, *names: str, log: AskedLog | None = None) -> FastAPI:
    models = [Served(name, "champion" if name.startswith("start-") else "running") for name in names or (NAME,)]
    for each in models:
        each.follow(registry, lambda: NOW_S)
        assert not each.problem
    return application(Service(models, 2.0 * DAY_S, log, clock=lambda: NOW_S))


def queue(count: int = 40, seed: int = 1) -> tuple[list[dict], QueueJobs]:
    """Return a queue as a client tells it, and as the model's features are made of it, with a job submitted now."""
    draw = np.random.default_rng(seed)
    waits, ran = draw.integers(0, 9_000, count), draw.integers(1, 9_000, count)
    runs, procs, requested = draw.random(count) < 0.4, draw.integers(1, 9, count), draw.integers(60, 40_000, count)
    user, of, account = draw.integers(0, 5, count), draw.integers(0, 2, count), draw.integers(0, 3, count)
    entries = [
        {"user": f"user{user[row]}", "procs": int(procs[row]), "requested_s": int(requested[row]), "waits_s": int(waits[row])}
        | {"running_s": int(ran[row]) if runs[row] else None, "queue": f"q{of[row]}", "account": f"a{account[row]}"}
        for row in range(count)
    ]
    start = np.append(np.where(runs, CLOCK_S - ran, NOT_YET), NOT_YET)
    submit = np.append(np.where(runs, CLOCK_S - ran, CLOCK_S) - waits, CLOCK_S)
    order = np.append(np.argsort(submit[:-1], kind="stable"), count)
    requested = np.append(requested, 3_600)
    names = (np.append(user, 3), np.append(of, 0), np.append(account, 1))
    columns = (submit, start, np.full(count + 1, NOT_YET), np.append(procs, 8), requested, *names)
    return entries, QueueJobs(*(each[order].astype(np.int64) for each in columns), requested[order, None])


JOB = {"user": "user3", "procs": 8, "requested_s": 3_600, "queue": "q0", "account": "a1"}


def start(app: FastAPI, body: object, status: int = 200) -> dict:
    code, answer = asked(app, "POST", "/start", body)
    assert code == status, answer
    return answer


def expected(predictor: StartPredictor, jobs: QueueJobs, **further: object) -> pd.Series:
    """Return what the registered model answers its consumers about the last of ``jobs``, with ``further`` columns."""
    queue = pd.DataFrame({"procs": jobs.procs, "requested_s": jobs.requested, "user": jobs.user.astype(str)})
    queue = queue.assign(
        queue=jobs.queue.astype(str), account=jobs.account.astype(str), submit_time=jobs.submit.astype("datetime64[s]")
    )
    started = np.where(jobs.start == NOT_YET, np.datetime64("NaT"), np.minimum(jobs.start, CLOCK_S).astype("datetime64[s]"))
    return predictor.predict(queue.assign(start_time=started, **further)).iloc[-1]


def same(answer: dict, row: pd.Series) -> bool:
    waits = [round(row[name]) for name in QUANTILES] == list(answer["quantiles"].values())
    return waits and list(answer["chances"].values()) == pytest.approx(row[list(CHANCES)].tolist(), abs=1e-4)


def test_an_answer_is_what_the_registered_model_answers_its_consumers(registry, predictor):
    (entries, jobs), app = queue(), service(registry)
    answer, row = start(app, {"queue": entries, "job": JOB}), expected(predictor, jobs)
    assert same(answer, row)
    assert answer["snapshot_age_s"] == row["snapshot_age_s"] == DAY_S
    named = {name: answer[name] for name in ("model", "alias", "version", "stale")}
    assert named == {"model": NAME, "alias": "champion", "version": "9", "stale": False}
    median = datetime.fromtimestamp(CLOCK_S, UTC) + timedelta(seconds=answer["quantiles"]["0.5"])
    assert answer["times"]["0.5"] == f"{median:%Y-%m-%d %H:%M:%S}"
    assert not same(start(app, {"queue": entries[:5], "job": JOB}), row)
    assert asked(app)[1]["models"][NAME]["method"] == HAZARD


def test_an_answer_says_why_the_job_waits(registry):
    entries, _ = queue()
    free = 1_000 - sum(each["procs"] for each in entries if each["running_s"] is not None)
    waiting = [each for each in entries if each["running_s"] is None]
    reason = start(service(registry), {"procs": 1_000, "queue": entries, "job": JOB})["reason"]
    assert reason == {
        "why": "priority",
        "ahead": len(waiting),
        "ahead_hours": round(sum(each["procs"] * each["requested_s"] for each in waiting) / 3_600, 1),
        "ahead_in_queue": sum(each["queue"] == JOB["queue"] for each in waiting),
        "ahead_in_account": sum(each["account"] == JOB["account"] for each in waiting),
        "free": free,
    }
    alone = {"procs": 9, "queue": [{**entries[0], "procs": 4, "running_s": 60}], "job": JOB}
    assert start(service(registry), alone)["reason"]["why"] == "resources"
    assert start(service(registry), {**alone, "procs": 12})["reason"]["why"] == "next"


def test_a_job_that_has_waited_is_answered_behind_older_jobs_and_in_lines_for_a_card(registry, predictor):
    (entries, jobs), app, waited_s = queue(), service(registry), 4_500
    older = sum(each["running_s"] is None and each["waits_s"] >= waited_s for each in entries)
    jobs.submit[-1] -= waited_s
    answer = start(app, {"queue": entries, "job": {**JOB, "waits_s": waited_s}})
    assert same(answer, expected(predictor, jobs))
    assert 0 < answer["reason"]["ahead"] == older < sum(each["running_s"] is None for each in entries)
    times, card = answer["times"], answer["card"]
    assert list(card) == ["Expected start", "With 80 %", "Waits because of", "Chance to start within 1 h"]
    assert card["With 80 %"] == f"between {times['0.1'][:-3]} and {times['0.9'][:-3]}"
    assert card["Waits because of"].startswith(f"priority: jobs ahead of it come first; {older} ahead of it ask for ")


def test_jobs_of_a_higher_priority_are_ahead_and_held_jobs_are_not(registry, predictor):
    (entries, jobs), app = queue(300), service(registry)
    priority = np.random.default_rng(4).permutation(len(entries)).astype(float)
    reasons = ["JobHeldUser" if row % 5 == 0 else "Priority" if row % 2 else None for row in range(len(entries))]
    queued = [{**entry, "priority": priority[row], "reason": reasons[row]} for row, entry in enumerate(entries)]
    job = {**JOB, "priority": 200.5}
    answer = start(app, {"queue": queued, "job": job})

    waiting = [each for each in queued if each["running_s"] is None]
    ahead = [each for each in waiting if each["priority"] > 200.5 and each["reason"] != "JobHeldUser"]
    assert 0 < answer["reason"]["ahead"] == len(ahead) < len(waiting) - 2
    assert answer["reason"]["ahead_in_account"] == sum(each["account"] == JOB["account"] for each in ahead)
    order = np.append(np.argsort([CLOCK_S - (each["running_s"] or 0) - each["waits_s"] for each in entries], kind="stable"), -1)
    further = {"priority": np.append(priority, 200.5)[order], "reason": [[*reasons, None][row] for row in order]}
    row = expected(predictor, jobs, **further)
    assert same(answer, row)
    assert not same(answer, expected(predictor, jobs)), "priorities are inputs of the model"
    first = start(app, {"queue": queued, "job": {**JOB, "priority": 1_000}})
    assert (first["reason"]["ahead"], first["card"]["Chance to start within 1 h"] != "") == (0, True)
    behind = start(app, {"queue": queued, "job": JOB})["reason"]["ahead"]
    assert behind == sum(each["reason"] != "JobHeldUser" for each in waiting), "a job without a priority is behind those with one"
    limit = start(app, {"queue": queued, "job": {**job, "reason": "QOSMaxJobsPerUserLimit"}})
    assert limit["reason"]["why"] == "limit"
    assert limit["card"]["Waits because of"].startswith("limit: a limit of its user")


def test_answers_are_logged_and_judged_by_when_their_jobs_start(registry, tmp_path: Path):
    log = AskedLog(tmp_path)
    app, job = service(registry, log=log), {**JOB, "user": "ada", "procs": 4, "requested_s": 600}
    first, second = (start(app, {"queue": queue()[0], "job": job, "job_id": number}) for number in (None, 99))
    jobs = pd.DataFrame({"job_id": [7, 8], "submit_s": [NOW_S + 3, NOW_S + 4], "procs": 4, "requested_s": 600, "user": "ada"})
    answers = started(NAME, jobs, np.array([NOW_S + 500, NOW_S + 900]), 0, tmp_path)
    assert answers["at_s"].tolist() == [NOW_S, NOW_S]
    assert answers["waited_s"].tolist() == pytest.approx([500, np.nan], nan_ok=True), "no job has the number 99"
    assert answers["wait_50_s"].tolist() == [each["quantiles"]["0.5"] for each in (first, second)]
    assert quality(answers)["median_error_s"] == abs(500 - first["quantiles"]["0.5"])
    assert started("start-other", jobs, np.zeros(2), 0, tmp_path).empty


def test_runtimes_are_those_of_the_model_of_the_same_trace_where_it_is_served(registry, predictor):
    (entries, jobs), app = queue(), service(registry, NAME, "runtime-made")
    assert not same(answer := start(app, {"queue": entries, "job": JOB}), expected(predictor, jobs))
    assert start(app, {"queue": entries, "job": JOB}) == answer  # of runtimes that are kept
    assert same(start(service(registry, NAME, "runtime-other"), {"queue": entries, "job": JOB}), expected(predictor, jobs))
    assert asked(app, "POST", "/predict", {"user": "user3", "procs": 8, "requested_s": 3_600})[1]["model"] == "runtime-made"


def test_a_queue_that_was_told_before_is_answered_as_if_it_was_not_and_as_strictly(registry):
    (entries, _), app = queue(70), service(registry, NAME, "runtime-made")
    before, now, later = (str(datetime.fromtimestamp(CLOCK_S + after, UTC))[:19] for after in (-60, 0, 900))
    entries[3] = {**entries[3], "procs": 1, "waits_s": None, "submit_time": now}
    questions = [
        {"queue": entries, "job": {**JOB, **other}, "now": at} for at in (now, later) for other in ({}, {"user": "new", "procs": 9})
    ]
    answers = [start(app, each) for each in (*questions, *questions[::-1])]
    assert answers[:4] == answers[:3:-1]
    assert answers[0]["quantiles"] != answers[1]["quantiles"]
    for question, answer in zip(questions, answers, strict=False):
        assert start(service(registry, NAME, "runtime-made"), question) == answer
    assert start(app, {**questions[0], "now": before}, status=422)["field"] == "queue[3].submit_time"
    entries[3]["procs"] = True
    assert start(app, questions[0], status=422)["field"] == "queue[3].procs"
    entries[3] = {**entries[3], "procs": 1, "user": "\ud800"}
    assert start(app, questions[0], status=422)["field"] == "queue[3].user"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"procs": 0}, "procs"),
        ({"requested_s": "60"}, "requested_s"),
        ({"running_s": -1}, "running_s"),
        ({"submit_time": "yesterday"}, "submit_time"),
        ({"submit_time": "2262-01-01 00:00:00"}, "submit_time"),
        ({"waits_s": None, "submit_time": "2100-01-01 00:00:00"}, "submit_time"),
        ({"state": "PENDING"}, "state"),
        ({"waits_s": None}, "waits_s"),
        ({"priority": "high"}, "priority"),
        ({"priority": float("nan")}, "priority"),
        ({"account": 7}, "account"),
        ({"reason": "x" * 1_001}, "reason"),
    ],
)
def test_a_queue_with_a_wrong_field_is_refused_in_one_line_that_names_it(registry, changes, field):
    entries, _ = queue(5)
    answer = start(service(registry), {"queue": [*entries[:3], {**entries[3], **changes}], "job": JOB}, status=422)
    assert answer["field"] == f"queue[3].{field}"
    assert answer["field"] in answer["error"]
    assert "\n" not in answer["error"]


def test_what_cannot_be_asked_is_refused(registry, predictor):
    app = service(registry, NAME, "runtime-made")
    assert start(app, {"queue": [], "job": {**JOB, "procs": MACHINE + 1}}, status=422)["field"] == "job.procs"
    assert start(app, {"queue": [], "job": JOB, "model": "start-other"}, status=422)["field"] == "model"
    assert start(app, {"queue": [], "job": JOB, "model": "runtime-made"}, status=422)["error"].endswith("served: start-made")
    status, answer = asked(app, "POST", "/predict", {"user": None, "procs": 1, "requested_s": 60, "model": NAME})
    assert (status, answer["field"], answer["error"]) == (
        422,
        "model",
        "model: 'start-made' is not served at /predict; served: runtime-made",
    )
    assert start(service(registry, "start-a", "start-b"), {"queue": [], "job": JOB}, status=422)["field"] == "model"


def test_a_model_without_dates_asks_for_the_clock_and_one_without_a_machine_for_its_processors(registry, predictor):
    registry.versions["9"] = replace(predictor.model, origin_unix_s=None, timezone=None, procs=0, method=RECENT)
    (entries, _), app, now = queue(), service(registry), "1970-02-01 00:00:00"
    assert start(app, {"queue": entries, "job": JOB}, status=422)["field"] == "now"
    assert start(app, {"queue": entries, "job": JOB, "now": now}, status=422)["field"] == "procs"
    answer = start(app, {"queue": entries, "job": JOB, "now": now, "procs": MACHINE})
    assert (answer["stale"], answer["snapshot_age_s"]) == (None, 31 * DAY_S - predictor.model.at_s)
