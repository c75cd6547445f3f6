"""The command that serves: what it refuses, and what it says when it starts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from features.errors import InputError
from pipelines.cli import web
from pipelines.serving import app, models
from pipelines.serving.app import Service


class Down:
    """A registry that does not answer, or that knows no model."""

    says = "registry http://registry.example: refused"

    def version(self, name: str, alias: str) -> str:
        if self.says:
            raise InputError(self.says)
        return ""

    def alternatives(self, name: str) -> str:
        return "its aliases: challenger, champion"


@pytest.fixture
def started(monkeypatch) -> list[Service]:
    """Return the services that would be run."""
    services: list[Service] = []
    monkeypatch.setattr(web, "_run", lambda app, host, port, names: None)
    monkeypatch.setattr(app, "application", services.append)
    monkeypatch.setattr(models, "SiteRegistry", Down)
    monkeypatch.setattr(Down, "says", Down.says)
    return services


def run(*options: str):
    return CliRunner().invoke(web.serve, options, catch_exceptions=False)


def test_it_starts_without_an_answer_of_the_registry_and_says_so(started):
    lines = run("runtime-a", "runtime-b@challenger", "--stale-after", "36").stderr.splitlines()
    assert lines == [f"{name} does not answer yet: {Down.says}" for name in ("runtime-a@champion:", "runtime-b@challenger:")]
    assert started[0].stale_after_s == 36 * 3600
    assert [each.alias for each in started[0].models] == ["champion", "challenger"]


def test_a_model_that_the_registry_does_not_know_is_refused(started):
    Down.says = ""
    with pytest.raises(
        InputError, match="no registered model runtime-a@champion: its aliases: challenger, champion; queuecast run"
    ):
        run("runtime-a")
    assert not started


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["variability-x"], "is not the name of a model of runtimes or starts"),
        (["runtime-a", "runtime-a@challenger"], "is named twice"),
    ],
)
def test_what_cannot_be_served_is_refused(started, options, why):
    with pytest.raises(InputError, match=why):
        run(*options)
