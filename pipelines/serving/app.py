"""The application: what it serves at which address, and the description of that.

Answers come from arrays in memory, in the one thread of the event loop. Runtimes of a long queue are predicted in
parts, between other requests.
"""

import re
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from features.errors import one_line
from pipelines.serving import starts
from pipelines.serving.asked_log import AskedLog
from pipelines.serving.loaded import (
    FIELDS,
    Loaded,
    LoadedVersion,
    Question,
    Refusal,
    RuntimeAnswer,
    Unanswerable,
)
from pipelines.serving.models import RUNTIMES, STARTS, Served
from pipelines.serving.starts import LoadedStarts, StartAnswer, StartQuestion, predicted, queue_of

V = TypeVar("V", bound=LoadedVersion)
_FIELDS = FIELDS | starts.FIELDS
_JSON = re.compile(r"application/([^;\s]+\+)?json\s*(;|$)", re.IGNORECASE)
LARGEST = 4 << 20
"""Max bytes of a request's body."""
_WHY = {
    400: "the body is not one JSON object",
    **dict.fromkeys(
        (404, 405),
        "only POST /predict, POST /start, GET /health and GET /metrics are served here; GET /openapi.json describes them",
    ),
    413: f"a request may have {LARGEST:,} bytes",
}


@dataclass(frozen=True)
class Service:
    """The service: its ``models``, the age from which a snapshot is stale, and the log."""

    models: Sequence[Served]
    stale_after_s: float
    log: AskedLog | None = None
    clock: Callable[[], float] = time.time

    async def predict(self, question: Question) -> JSONResponse:
        """Answer how long a job will run."""
        return await self._answered(self._answer(question))

    async def start(self, question: StartQuestion) -> JSONResponse:
        """Answer when a job that is submitted to a queue will start."""
        return await self._answered(self._start(question))

    async def _answered(self, answering: Coroutine[None, None, tuple[dict[str, Any], dict[str, Any]]]) -> JSONResponse:
        """Return an answer; its entry goes to the log once the answer is sent, as a disk may be slow."""
        try:
            answer, entry = await answering
            logging = None if self.log is None else BackgroundTask(self.log.put, entry)
            return JSONResponse(answer, background=logging)
        except Unanswerable:
            raise
        except Exception as error:  # its text may name users, and FastAPI would print it
            last, why = traceback.extract_tb(error.__traceback__)[-1], f"a defect of Queuecast's own: {type(error).__name__}"
            print(f"{why} ({Path(last.filename).name}:{last.lineno})", file=sys.stderr, flush=True)
            return JSONResponse({"error": why}, 500)

    async def _answer(self, question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
        loaded, now_s = self._loaded(question.model or "", Loaded), self.clock()
        answer, stored = loaded.answer(question, now_s)
        entry = loaded.entry(question, stored, answer, now_s)
        return {**answer, **loaded.head(now_s, self.stale_after_s)}, entry

    async def _start(self, question: StartQuestion) -> tuple[dict[str, Any], dict[str, Any]]:
        loaded, now_s = self._loaded(question.model or "", LoadedStarts), self.clock()
        clock_s = loaded.clock_s(question, now_s)
        queue = queue_of(question, clock_s)
        trace = loaded.name.removeprefix(STARTS)
        runtimes = next((model.loaded for model in self.models if model.name == f"{RUNTIMES}{trace}"), None)
        if isinstance(runtimes, Loaded) and runtimes.predictor.method.levels:
            queue = queue._replace(jobs=await predicted(runtimes, queue.users, queue.jobs))
        answer = loaded.answer(question, queue, clock_s)
        entry = loaded.entry(question, answer, queue.jobs, now_s)
        return {**answer, **loaded.head(now_s, self.stale_after_s)}, entry

    def _loaded(self, name: str, kind: type[V]) -> V:
        """Return the loaded version of the model ``name``, or of the only one of its kind."""
        begins, path = (STARTS, "/start") if kind is LoadedStarts else (RUNTIMES, "/predict")
        models = [model for model in self.models if model.name.startswith(begins)]
        names = ", ".join(model.name for model in models) or "none"
        if not models:
            raise Unanswerable(f"no model for {path} is served: name one, such as {begins}TRACE, after queuecast serve", "model")
        if not name and len(models) != 1:
            raise Unanswerable(f"model is missing; served: {names}", "model")
        served = next((model for model in models if not name or model.name == name), None)
        if served is None:
            raise Unanswerable(f"model: {name[:60]!a} is not served at {path}; served: {names}", "model")
        if not isinstance(served.loaded, kind):
            raise Unanswerable(f"{served.name} is not loaded: {served.problem}", status=503)
        return served.loaded

    async def health(self) -> JSONResponse:
        """Tell which versions answer, from which snapshots, and their problems."""
        now_s, ready = self.clock(), all(model.loaded is not None for model in self.models)
        models = {model.name: _state(model, now_s, self.stale_after_s) for model in self.models}
        log = {} if self.log is None else {"log": self.log.state()}
        return JSONResponse({"ready": ready, "models": models, **log}, 200 if ready else 503)


def application(service: Service) -> FastAPI:
    """Return the application that asks ``service``; every refusal is one JSON object."""
    app = FastAPI(
        title="Queuecast",
        summary="How long jobs will run and wait, from registered models.",
        docs_url=None,  # FastAPI's own page takes its script from another site
        redoc_url=None,
        max_body_size=LARGEST,
        exception_handlers={RequestValidationError: _refuse_fields, HTTPException: _refuse_request},
    )
    refusals: dict[int | str, dict[str, Any]] = {status: {"model": Refusal} for status in (400, 405, 413, 415, 422, 500, 503)}
    app.add_api_route("/predict", service.predict, methods=["POST"], response_model=RuntimeAnswer, responses=refusals)
    app.add_api_route("/start", service.start, methods=["POST"], response_model=StartAnswer, responses=refusals)
    app.add_api_route("/health", service.health, methods=["GET"], response_model=dict[str, Any])
    app.add_api_route("/health", service.health, methods=["HEAD"], include_in_schema=False)
    with suppress(ImportError):  # prometheus_client comes with the extra ``server`` of the package
        _add_metrics(app, service.models)
    return app


def _add_metrics(app: FastAPI, models: Sequence[Served]) -> None:
    """Serve the metrics of ``models`` at /metrics."""
    from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

    from pipelines.serving.metrics import text_of

    text = text_of(models)

    async def metrics() -> Response:
        """Tell which versions answer, from which histories, and how good answers were, as OpenMetrics text."""
        return Response(text(), media_type=CONTENT_TYPE_LATEST)

    app.add_api_route("/metrics", metrics, methods=["GET"], response_class=Response, response_model=None)


def _refusal(status: int, why: str, field: str = "") -> JSONResponse:
    return JSONResponse({"error": one_line(why, 300), **({"field": field} if field else {})}, status)


async def _refuse_request(request: Request, error: HTTPException) -> JSONResponse:
    return _refusal(error.status_code, _WHY.get(error.status_code, error.detail), getattr(error, "field", ""))


async def _refuse_fields(request: Request, error: RequestValidationError) -> JSONResponse:
    """Refuse with the first wrong field, by its place in the body."""
    kind = request.headers.get("content-type", "")
    if not _JSON.match(kind):  # the body was not parsed
        return _refusal(
            415,
            f"the request has {f'the content-type {kind[:60]!a}' if kind else 'no content-type'}, and must have application/json",
        )
    first = error.errors()[0]
    *within, last = first["loc"]
    place = [step for step in within if isinstance(step, int) or step in _FIELDS]
    place += [last] if first["type"] == "extra_forbidden" or isinstance(last, int) or last in _FIELDS else []
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")[:100]
    if not field or first["type"] == "json_invalid":
        return _refusal(400, _WHY[400])
    return _refusal(422, f"{field}: {first['msg'][:1].lower()}{first['msg'][1:]}", field)


def _state(served: Served, now_s: float, stale_after_s: float) -> dict[str, Any]:
    loaded, state = served.loaded, {"alias": served.alias, "ready": served.loaded is not None}
    if loaded is not None:
        taken = loaded.snapshot_unix_s
        state |= {"version": loaded.number, "method": loaded.method, "stale": loaded.stale(now_s, stale_after_s)}
        state |= {"snapshot": taken and _time(taken), "snapshot_age_s": None if taken is None else int(now_s - taken)}
    if served.problem:
        state |= {"problem": served.problem, "since": _time(served.since_s)}
    return state


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")
