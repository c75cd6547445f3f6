"""The ASGI application: ``POST /predict`` and ``GET /health``.

Everything is answered from arrays in memory, in the one thread of the event loop: long requests in parts, so that others come in between.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from features.errors import one_line
from pipelines.serving.asked_log import Answered, AskedLog
from pipelines.serving.models import ROWS, Loaded, Served
from pipelines.serving.questions import Unanswerable, read_questions

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST = 4 << 20
"""Max bytes of a request's body."""


@dataclass(frozen=True)
class Service:
    """The application: its ``models``, from which age a snapshot is stale, and the log."""

    models: Sequence[Served]
    stale_after_s: float
    log: AskedLog | None = None
    clock: Callable[[], float] = time.time

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _lifespan(receive, send)
            return
        status, answer = 200, {}
        try:
            asked = (scope["method"], scope["path"])
            if asked == ("POST", "/predict"):
                answer = await self._predict(await _body(receive))
            elif asked[0] in ("GET", "HEAD") and asked[1] == "/health":
                answer = self.health()
                status = 200 if answer["ready"] else 503
            else:
                raise Unanswerable("only POST /predict and GET /health are served here", status=404)
        except Unanswerable as error:
            status, answer = error.status, {"error": one_line(str(error), 300), **({"field": error.field} if error.field else {})}
        except Exception as error:  # what it says may name users
            last = traceback.extract_tb(error.__traceback__)[-1]
            status, answer = 500, {"error": f"a defect of Queuecast's own: {type(error).__name__}"}
            print(f"{answer['error']} ({Path(last.filename).name}:{last.lineno})", file=sys.stderr, flush=True)
        body = json.dumps(answer).encode() + b"\n"
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _predict(self, body: Mapping[str, Any]) -> dict[str, Any]:
        asked = read_questions(body)
        loaded, now_s = self._asked_model(asked.model), self.clock()
        head: dict[str, Any] = {"model": loaded.name, "alias": loaded.alias, "version": loaded.number}
        head |= {"stale": loaded.stale(now_s, self.stale_after_s)}
        answers: list[dict[str, Any]] = []
        for first in range(0, len(asked), ROWS):
            if first:
                await asyncio.sleep(0)
            rows = slice(first, min(first + ROWS, len(asked)))
            some, given = loaded.answer(asked, rows, now_s)
            answers += some
            if self.log is not None:
                self.log.put(Answered(loaded, asked, rows, given, some, now_s))
        return {**answers[0], **head} if asked.alone else {**head, "answers": answers}

    def _asked_model(self, name: str) -> Loaded:
        names = [each.name for each in self.models]
        if not name and len(names) > 1:
            raise Unanswerable(f"model is missing; served: {', '.join(names)}", "model")
        found = [each for each in self.models if not name or each.name == name]
        if not found:
            raise Unanswerable(f"model: {name[:60]!a} is not served here; served: {', '.join(names)}", "model")
        if found[0].now is None:
            raise Unanswerable(f"{found[0].name} is not loaded: {found[0].problem}", status=503)
        return found[0].now

    def health(self) -> dict[str, Any]:
        """Return what ``GET /health`` answers."""
        now_s = self.clock()
        models = {each.name: _state(each, now_s, self.stale_after_s) for each in self.models}
        log = {} if self.log is None else {"log": self.log.state()}
        return {"ready": all(each.now is not None for each in self.models), "models": models, **log}


def _state(served: Served, now_s: float, stale_after_s: float) -> dict[str, Any]:
    loaded, state = served.now, {"alias": served.alias, "ready": served.now is not None}
    if loaded is not None:
        taken = loaded.predictor.snapshot_unix_s
        state |= {"version": loaded.number, "method": loaded.predictor.method.name, "stale": loaded.stale(now_s, stale_after_s)}
        state |= {"snapshot": taken and _time(taken), "snapshot_age_s": None if taken is None else int(now_s - taken)}
    if served.problem:
        state |= {"problem": served.problem, "since": _time(served.since_s)}
    return state


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")


async def _body(receive: Receive) -> Mapping[str, Any]:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST:
            raise Unanswerable(f"a request may have {LARGEST:,} bytes", status=413)
        more = message.get("more_body", False) and message["type"] != "http.disconnect"
    try:
        found = json.loads(b"".join(parts), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Unanswerable(f"the body is not JSON: {error}", status=400) from error
    if not isinstance(found, dict):
        raise Unanswerable("the body is not one JSON object", status=400)
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


async def _lifespan(receive: Receive, send: Send) -> None:
    """Tell a server that begins and ends that there is nothing to wait for."""
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})
