"""A failed night changes nothing: whatever stage it dies in, aliases, tables and pages are those of the night before, and the next night works."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlflow
import pytest

from features.errors import InputError
from models.registry import registration
from models.registry.as_served import Models
from pipelines.lake import publishing, runtime_features
from pipelines.training import decided, traces
from pipelines.training.night import night, own_registry
from pipelines.training.traces import Memo
from tests.support.arriving import CHANGE_DAY, contents, source

pytestmark = [pytest.mark.usefixtures("undrawn_pictures", "quick_methods"), pytest.mark.thorough]
FIRST = CHANGE_DAY - 3
TRAINED: Models = {}
"""What nights of this module trained, on accounting that all of them have: for the next ones, as a replay remembers it."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory):
    """A home with one night done."""
    before = mlflow.get_tracking_uri()
    home, trace = tmp_path_factory.mktemp("failures") / "home", source(jobs=900)
    do(home, trace, 0)
    yield home, trace
    mlflow.set_tracking_uri(before)


@pytest.fixture
def home(prepared, tmp_path: Path):
    """A copy of it; the registry's database holds absolute places of artifacts, which stay readable where they are."""
    return Path(shutil.copytree(prepared[0], tmp_path / "home"))


def do(home: Path, trace, number: int, read=None, connect=None):
    midnight = trace.midnights[FIRST + number]
    memo = Memo({} if read else dict(TRAINED))
    outcome = night(
        "arriving",
        trace.label(midnight),
        read or (lambda: trace.accounting(midnight)),
        connect or (lambda: own_registry(home)),
        home,
        memo=memo,
    )
    if not read:
        TRAINED.update(memo.models)
    return outcome


def aliases(home: Path) -> dict[str, str]:
    client = own_registry(home).client
    return {name: str(version) for name, version in client.get_registered_model("runtime-arriving").aliases.items()}


def served_by_the_champion(home: Path) -> str:
    own_registry(home)
    return mlflow.pyfunc.load_model("models:/runtime-arriving@champion").metadata.model_uuid


def boom(*_: object, **__: object):
    raise RuntimeError("boom")


STAGES = {
    "ingesting": (runtime_features, "features_of"),
    "training": (traces, "fingerprint"),
    "registering": (registration, "assemble"),
    "keeping the ledger": (decided, "_row"),
}
"""One of each kind; ``make campaign`` kills nights at each system call that changes a file."""


def fails(home: Path, trace, stage: str) -> None:
    """Let the night after the first die in ``stage``, and check that nothing else changed."""
    before, named, champion = contents(home), aliases(home), served_by_the_champion(home)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(*STAGES[stage], boom)
        with pytest.raises(RuntimeError, match="boom"):
            do(home, trace, 1)
    assert contents(home) == before
    assert aliases(home) == named
    assert served_by_the_champion(home) == champion


@pytest.fixture(scope="module")
def failing(prepared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which one night after the other fails: each goes as far as the stage in which it dies, whatever the last one left."""
    return Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("failing") / "home"))


@pytest.mark.parametrize("stage", STAGES)  # the night after the last one is looked at below
def test_a_night_that_raises_leaves_the_night_before(prepared, failing: Path, stage: str) -> None:
    fails(failing, prepared[1], stage)


def test_a_version_damaged_on_its_way_into_the_registry_fails_the_night_and_changes_nothing(
    prepared, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, named = contents(home), aliases(home)
    real, names = registration.new_version, []

    def damaged(tracking, name, logged, *rest):
        names.append(name)
        if len(names) == 2:  # the refreshed champion
            folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri)) / "artifacts" / "runtime_model"
            file = folder / "history.parquet"
            file.write_bytes(file.read_bytes()[:-100])
        return real(tracking, name, logged, *rest)

    monkeypatch.setattr(registration, "new_version", damaged)
    with pytest.raises(InputError, match="does not answer when it is loaded back"):
        do(home, prepared[1], 1)
    assert len(names) == 2
    assert contents(home) == before
    assert aliases(home) == named


def test_accounting_that_cannot_be_read_and_a_registry_that_is_away_are_failed_nights(prepared, home: Path) -> None:
    trace = prepared[1]
    before = contents(home)

    def gone():
        raise InputError("accounting.txt: no such file")

    for broken in ({"read": gone}, {"connect": gone}):
        with pytest.raises(InputError, match="no such file"):
            do(home, trace, 1, **broken)
        assert contents(home) == before


def test_two_nights_of_a_trace_do_not_run_at_once(prepared, home: Path) -> None:
    with publishing.alone(home, "arriving"), pytest.raises(InputError, match="another night or run of arriving is running"):
        do(home, prepared[1], 1)


def test_a_champion_of_a_learner_that_is_no_more_is_not_judged_and_the_note_says_so(home: Path) -> None:
    store, old = own_registry(home), aliases(home)["champion"]
    trained = store.client.get_model_version("runtime-arriving", old).tags.get("refreshed_from", old)
    store.client.set_model_version_tag("runtime-arriving", trained, "method", "lightgbm-users")
    present = traces.incumbent(store, "arriving")
    assert present is not None
    assert present.method is None
    assert f"version {old}, is of the method lightgbm-users, which this Queuecast does not train" in present.note


def test_aliases_that_cannot_be_set_stop_no_night(prepared, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, named = prepared[1], aliases(home)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(publishing, "aliases_of", lambda *_: boom)
        first = do(home, trace, 1)
    assert aliases(home)["champion"] == named["champion"] != first.row["champion"]
    assert "is published, but its aliases or pages could not be updated (boom)" in capsys.readouterr().err
    second = do(home, trace, 2)
    assert len(second.nights) == 3
    assert aliases(home)["champion"] == second.row["champion"]
