"""A registry of versions in memory, one of each method, and a service that asks it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from models.packed.methods import METHODS, Last2, LightGBM, Quantile, Requested
from models.packed.runtime_predictor import RuntimePredictor
from models.registry.candidates import accounting, fit
from models.registry.packing import assemble
from models.registry.runtime_registration import Snapshot, runtime_content
from tests.support.learning import ORIGIN_S, ZONE, people, workload

NOW_S = ORIGIN_S + 30 * DAY_S
KIND = {name: str(number) for number, name in enumerate(METHODS, 1)}
"""The version's number of each method."""


@dataclass
class Registry:
    """Versions by number, and aliases that a test may move."""

    versions: dict[str, RuntimePredictor]
    aliases: dict[str, str] = field(default_factory=dict)
    down: str = ""
    loads: int = 0

    def version(self, name: str, alias: str) -> str:
        if self.down:
            raise InputError(self.down)
        return self.aliases.get(alias, "")

    def trained_unix_s(self, name: str, number: str) -> float:
        return NOW_S - 5 * DAY_S

    def judged(self, name: str) -> dict[str, float]:
        return {}

    def load(self, name: str, number: str) -> RuntimePredictor:
        self.loads += 1
        if number not in self.versions:
            raise InputError(f"models:/{name}/{number}: does not load: its data are not what was packed")
        return self.versions[number]


@pytest.fixture(scope="session")
def versions(tmp_path_factory) -> dict[str, RuntimePredictor]:
    jobs, start = workload(2000, weeks=4)
    jobs = people(jobs)
    at = int(jobs["submit_s"].iloc[-1]) - DAY_S
    history = accounting(jobs, start, ORIGIN_S, ZONE)
    trained = {
        Requested.name: Requested(),
        Last2.name: Last2(),
        **{name: fit(name, history, at, 0) for name in (LightGBM.name, Quantile.name)},
    }
    states, predictors = history.snapshot(at), {}
    for name in METHODS:
        content = runtime_content(trained[name], Snapshot(states, at, ORIGIN_S, ZONE))
        predictors[KIND[name]] = RuntimePredictor(assemble(tmp_path_factory.mktemp("version"), "runtime", content.write).data)
    return predictors


@pytest.fixture(scope="session")
def submitted() -> pd.DataFrame:
    """300 submissions as consumers of the registry give them, some with unknown names."""
    random = np.random.default_rng(3)
    jobs, count = people(workload(2000, weeks=4)[0]), 300
    some = jobs.iloc[random.integers(0, len(jobs), count)].reset_index(drop=True)
    submit = some["submit_s"].to_numpy(np.int64) + random.integers(0, 20 * DAY_S, count)
    texts = {name: some[name].astype(object).where(some[name].notna(), None) for name in ("group", "executable")}
    user = some["user"].astype(object).where(some["user"].notna() & (random.random(count) > 0.1), None)
    return pd.DataFrame(
        {
            "user": user.where(random.random(count) > 0.1, "never seen"),
            **texts,
            "procs": some["procs"].to_numpy() * random.integers(1, 3, count),
            "requested_s": random.integers(1, 40_000, count),
            "submit_time": local_clock_s(submit, ORIGIN_S, ZONE).astype("datetime64[s]"),
        }
    )


def as_json(submitted: pd.DataFrame) -> list[dict[str, Any]]:
    """Return submissions as a client sends them."""
    return json.loads(submitted.astype({"submit_time": "str"}).to_json(orient="records"))


def asked(app, method: str = "GET", path: str = "/health", body: object = b"", **options: Any) -> tuple[int, dict[str, Any]]:
    """Return status and answer of one request; ``options`` are those of :func:`answered`."""
    return asyncio.run(asked_in_loop(app, method, path, body, **options))


def scraped(app) -> dict[str, list[Any]]:
    """Return the samples of GET /metrics by the name of their family."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    status, text = asyncio.run(answered(app, "GET", "/metrics", b""))
    assert status == 200
    return {family.name: family.samples for family in text_string_to_metric_families(text.decode())}


async def asked_in_loop(app, method: str, path: str, body: object, **options: Any) -> tuple[int, dict[str, Any]]:
    status, content = await answered(app, method, path, body, **options)
    return status, json.loads(content)


async def answered(
    app, method: str, path: str, body: object, parts: int = 1 << 20, kind: str = "application/json"
) -> tuple[int, bytes]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    inbox = [
        {"type": "http.request", "body": content[at : at + parts], "more_body": at + parts < len(content)}
        for at in range(0, max(len(content), 1), parts)
    ]
    sent: list[dict[str, Any]] = []

    async def receive():
        return inbox.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"content-type", kind.encode())] if kind else []
    await app({"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}, receive, send)
    return sent[0]["status"], sent[1]["body"]
