"""A failed night changes nothing: whatever stage it dies in, aliases, tables and pages are those of the night before, and the next night works."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import mlflow
import pytest

from features.errors import InputError
from models import registration
from pipelines import night_commit, nights, retraining
from pipelines.night_replay import own_registry
from pipelines.nights import night
from tests.arriving import CHANGE_DAY, contents, source

FIRST = CHANGE_DAY - 3


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory):
    """A home with one night done."""
    before = mlflow.get_tracking_uri()
    home, trace = tmp_path_factory.mktemp("failures") / "home", source(jobs=3000)
    do(home, trace, 0)
    yield home, trace
    mlflow.set_tracking_uri(before)


@pytest.fixture
def home(prepared, tmp_path: Path):
    """A copy of it; the registry's database holds absolute places of artifacts, which stay readable where they are."""
    return Path(shutil.copytree(prepared[0], tmp_path / "home"))


def do(home: Path, trace, number: int, read=None, connect=None):
    midnight = trace.midnights[FIRST + number]
    return night(
        "arriving",
        trace.label(midnight),
        read or (lambda: trace.accounting(midnight)),
        connect or (lambda: own_registry(home)),
        home,
    )


def aliases(home: Path) -> dict[str, str]:
    client = own_registry(home).client
    return {name: str(version) for name, version in client.get_registered_model("runtime-arriving").aliases.items()}


def served_by_the_champion(home: Path) -> str:
    own_registry(home)
    return mlflow.pyfunc.load_model("models:/runtime-arriving@champion").metadata.model_uuid


def boom(*_: object, **__: object):
    raise RuntimeError("boom")


STAGES = {
    "ingesting": (nights, "user_history"),
    "reading the champion": (retraining, "Incumbent"),
    "predicting as served": (nights, "predict_served"),
    "training": (retraining, "fingerprint"),
    "registering": (registration, "assemble"),
    "refreshing": (retraining, "_refresh"),
    "looking for drift": (nights, "input_drift"),
    "comparing": (nights, "campaign_schedules"),
    "keeping the ledger": (nights, "ledger_row"),
    "moving the aliases": (registration, "crown"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_night_that_raises_leaves_the_night_before_and_the_next_one_works(
    prepared, home: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = prepared[1]
    before, named, champion = contents(home), aliases(home), served_by_the_champion(home)
    with monkeypatch.context() as broken:
        broken.setattr(*STAGES[stage], boom)
        with pytest.raises(RuntimeError, match="boom"):
            do(home, trace, 1)
    assert contents(home) == before
    assert aliases(home) == named
    assert served_by_the_champion(home) == champion
    label = trace.label(trace.midnights[FIRST + 1])
    said = (home / "reports/nights/arriving" / f"{label}.failed.txt").read_text()
    assert said.count("\n") == 1
    assert said.startswith(f"night {label} of arriving, while ")
    assert said.endswith("boom; champion, tables and reports stay those of the night before\n")
    made = do(home, trace, 2)
    assert aliases(home)["champion"] == made.row["champion"] != named["champion"]
    assert len(made.nights) == 2
    assert said.strip() in (home / "reports/nights/arriving/index.html").read_text()


def test_accounting_that_cannot_be_read_and_a_registry_that_is_away_are_failed_nights(prepared, home: Path) -> None:
    trace = prepared[1]
    before = contents(home)

    def gone():
        raise InputError("accounting.txt: no such file")

    for broken in ({"read": gone}, {"connect": gone}):
        with pytest.raises(InputError, match="no such file"):
            do(home, trace, 1, **broken)
        assert contents(home) == before
    assert do(home, trace, 1).row["new_jobs"] > 0


def test_aliases_half_moved_are_put_back(prepared, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = prepared[1]
    named = aliases(home)
    with monkeypatch.context() as broken:
        real = mlflow.MlflowClient.set_registered_model_alias

        def set_alias(self, name, alias, version):
            if alias == "champion" and str(version) != named["champion"]:
                raise mlflow.exceptions.MlflowException("the registry is gone")
            return real(self, name, alias, version)

        broken.setattr(mlflow.MlflowClient, "set_registered_model_alias", set_alias)
        with pytest.raises(mlflow.exceptions.MlflowException, match="gone"):
            do(home, trace, 1)
    assert aliases(home) == named


KILLED = """
import os, signal, sys
from pathlib import Path
from pipelines import night_commit, nights
from tests.test_night_failures import do, source
module, name, after = sys.argv[2:5]
owner = {"nights": nights, "Staging": night_commit.Staging, "os": night_commit.os}[module]
real = getattr(owner, name)
left = int(after)
def dies(*arguments, **keywords):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **keywords)
if int(after) >= 0:
    setattr(owner, name, dies)
do(Path(sys.argv[1]), source(jobs=3000), 1)
"""


@pytest.mark.parametrize(
    ("module", "name", "after", "happened"),
    [
        ("nights", "campaign_schedules", 0, False),
        ("Staging", "commit", 0, False),
        ("nights", "_crown", 0, True),
        ("Staging", "clear", 0, True),
    ],
    ids=["comparing", "before the journal", "before the aliases", "before the journal is removed"],
)
def test_a_night_that_is_killed_has_happened_or_not_and_the_next_one_works(
    prepared, home: Path, module: str, name: str, after: int, happened: bool
) -> None:
    trace = prepared[1]
    before, named = contents(home), aliases(home)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(home), module, name, str(after)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=200,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    if not happened:
        assert contents(home) == before
        assert aliases(home) == named
    made = do(home, trace, 2)
    assert len(made.nights) == (3 if happened else 2)
    assert aliases(home)["champion"] == made.row["champion"]
    label = trace.label(trace.midnights[FIRST + 1])
    told = " ".join(made.notes)
    assert ("that was finished" if happened else f"night {label} had died while") in told
    assert (home / f"reports/nights/arriving/{label}.html").exists() == happened
    assert not list((home / "nights/arriving").glob("[!.]*"))


def test_two_nights_of_a_trace_do_not_run_at_once(prepared, home: Path) -> None:
    with night_commit.staged(home, "arriving"), pytest.raises(InputError, match="another night of arriving is running"):
        do(home, prepared[1], 1)


def test_a_champion_of_an_older_format_is_replaced_and_the_note_says_so(prepared, home: Path) -> None:
    store = own_registry(home)
    old = aliases(home)["champion"]
    store.client.set_model_version_tag("runtime-arriving", old, "queuecast_format", "0")
    with pytest.raises(InputError, match=f"version {old}.* has format 0, this Queuecast reads format 1: register it again"):
        registration.load(store, "runtime-arriving")
    made = do(home, prepared[1], 1)
    assert made.row["promoted"]
    assert f"version {old}, is of format 0, not 1" in str(made.row["why"])
    assert registration.load(own_registry(home), "runtime-arriving") is not None


def test_a_champion_chosen_by_hand_stays_and_is_not_refreshed(prepared, home: Path) -> None:
    store = own_registry(home)
    chosen = aliases(home)["champion"]
    for tag in ("judged_accuracy", "method"):
        store.client.delete_model_version_tag("runtime-arriving", chosen, tag)
    made = do(home, prepared[1], 1)
    assert aliases(home)["champion"] == chosen == made.row["champion"]
    assert "somebody chose it by hand, and it stays" in str(made.row["why"])
    assert do(home, prepared[1], 2).row["champion"] == chosen
