"""Aliases of a published version, who reads by them, and a trace's lock."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from features.errors import InputError
from models.registry.tracking import Tracking
from pipelines.lake import publishing
from pipelines.lake.publishing import FINISHED, aliases_of, alone, finish, lock_of, version_of
from pipelines.lake.tables import Lake
from pipelines.lake.version import Version

MODEL = "runtime-t"


class Client:
    """A registry's client of one model's aliases."""

    def __init__(self, **aliases: str) -> None:
        self.aliases, self.order = aliases, []

    def get_registered_model(self, name: str) -> Any:
        return SimpleNamespace(aliases={**self.aliases})

    def search_model_versions(self, text: str, page_token: str | None) -> Any:
        versions = [SimpleNamespace(version=number) for number in ("0", "1", "2")]
        return type("Page", (list,), {"token": ""})(versions)

    def set_registered_model_alias(self, name: str, alias: str, number: str) -> None:
        assert name == MODEL
        self.aliases[alias] = number
        self.order.append(alias)

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        del self.aliases[alias]


def point(client: Client, **models: str) -> None:
    aliases_of(cast(Tracking, SimpleNamespace(client=client)), MODEL)(models)


def test_the_champions_alias_moves_last_and_an_alias_of_no_version_goes() -> None:
    client = Client(champion="1", challenger="2", gone="1", candidate="1")
    point(client, champion="3", challenger="4", candidate="5", gone="", never="")
    assert client.aliases == {"champion": "3", "challenger": "4", "candidate": "5"}
    assert client.order[-1] == "champion"


def test_one_night_or_run_of_a_trace_at_a_time(tmp_path: Path) -> None:
    refusal = pytest.raises(InputError, match="another night or run of t is running: try again")
    with alone(tmp_path, lock_of(MODEL)), alone(tmp_path, "other"), refusal, alone(tmp_path, "t", 0.1):
        pass
    with alone(tmp_path, "t"):
        pass
    assert lock_of("variability-s") == "variability-s"


def test_readers_take_the_published_version_until_the_aliases_were_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "check_registry", lambda *_: None)
    client, lake = Client(champion="0", challenger="0"), Lake(tmp_path / "lake", "first")
    store = cast(Tracking, SimpleNamespace(client=client))

    def served(alias: str = "champion") -> str:
        return version_of(lake, store, MODEL, alias)

    lake.name_models(MODEL, {"champion": "1", "challenger": "2"})
    lake.versions(MODEL).put([Version(models={"champion": "1", "challenger": "2"}, version="a")])
    assert [served(alias) for alias in ("champion", "challenger", "mine")] == ["1", "2", ""]
    assert finish(lake, store, MODEL) == [FINISHED]
    assert client.aliases == {"champion": "1", "challenger": "2"}
    assert served() == "1"
    client.aliases["champion"] = "2"
    assert served() == "2", "a person moved it"
    assert finish(lake, store, MODEL) == []
