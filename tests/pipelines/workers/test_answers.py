"""Workers that do not answer, or answer what cannot be: a line, another worker, and the same table."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pytest

from features.errors import InputError
from pipelines.workers import cluster, tasks, work
from pipelines.workers.pace import FIRST_S, LEAST_S, Pace
from pipelines.workers.where import mapped
from sim import Campaign
from sim.campaigns.maps import serial
from tests.pipelines.workers.test_workers import Half, started
from tests.sim.campaigns.test_campaign import assert_same, run

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

STUCK, GO_ON = threading.Event(), threading.Event()
"""Set by what never returns, and in the end for it to return; workers in this process see both."""


def stuck_once(piece: Any) -> str:
    if not STUCK.is_set():
        stuck(piece)
    return str(piece)


def stuck(piece: Any) -> None:
    STUCK.set()
    GO_ON.wait()


class StuckOnce(Half):
    """A predictor that never answers, the first time."""

    name = "stuck once"

    def begin(self, jobs: Any) -> None:
        super().begin(jobs)
        stuck_once("")


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A task is late as soon as one is stuck, whatever the clock says."""
    STUCK.clear()
    GO_ON.clear()
    for module in (cluster, work):
        monkeypatch.setattr(module, "LOOK_S", 0.02)
    monkeypatch.setattr(Pace, "due_s", lambda self, first, attempts=0: 0.0 if STUCK.is_set() and not attempts else math.inf)
    yield
    GO_ON.set()


@pytest.fixture
def two() -> Iterator[str]:
    """Two workers in this process."""
    with started(2, processes=False) as made:
        yield made.scheduler_address
        GO_ON.set()


@pytest.fixture(scope="module")
def lasting() -> Iterator[str]:
    """Two for the tests in which none is stuck."""
    with started(2, processes=False) as made:
        yield made.scheduler_address


def test_a_task_that_never_returns_is_computed_by_another_worker(two: str) -> None:
    said: list[str] = []
    asked = Campaign(schedulers=("EASY", "JustBF"), predictors=(StuckOnce, "last2"))
    with mapped(two, say=said.append) as on_workers:
        table = run(asked, map_points=on_workers)
        assert STUCK.is_set()
        assert not GO_ON.is_set()
    assert_same(table, run(asked, map_points=serial))
    assert any(
        re.search(r"EASY / stuck once .*window \d.*: worker tcp://\S+ has not answered for 0 s, where ", line) for line in said
    )
    assert any(re.search(r"is given to tcp://\S+ too$", line) for line in said)


def test_what_waits_behind_a_task_that_never_returns_is_computed(two: str) -> None:
    with mapped(two) as on_workers:
        assert sorted(on_workers(stuck_once, range(40))) == sorted(map(str, range(40)))
        assert not GO_ON.is_set()
        assert sorted(on_workers(str, range(5))) == list("01234")  # the stuck worker gets none of another call


def test_the_first_answer_counts_and_comes_once(two: str) -> None:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        GO_ON.set()

    with mapped(two, say=say) as on_workers:
        assert sorted(on_workers(stuck_once, range(9))) == sorted(map(str, range(9)))
    assert said


def test_a_task_that_no_worker_answers_ends_the_work_in_one_line(two: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "due_s", lambda self, first, attempts=0: 0.0 if STUCK.is_set() else math.inf)
    with (
        mapped(two) as on_workers,
        pytest.raises(InputError, match=rf"^{two}: poison: worker tcp://\S+ has not answered for 0 s, .*the last of 3 attempts"),
    ):
        list(on_workers(stuck, ["poison"]))


def test_a_worker_that_is_taken_up_by_something_else_is_passed_over(two: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its only thread is taken by something else."""
    monkeypatch.setattr(work, "FIRST_S", 1.0)
    monkeypatch.setattr(Pace, "due_s", lambda self, first, attempts=0: 10.0**attempts)
    said: list[str] = []
    with mapped(two, say=said.append) as on_workers:
        first = next(iter(on_workers.client.nthreads()))
        busy = on_workers.client.submit(stuck, "", workers=[first], pure=False)
        STUCK.wait()
        assert sorted(on_workers(str, range(9))) == sorted(map(str, range(9)))
        assert not busy.done()
    assert any(
        re.search(rf"worker {first} has not (taken what simulations share; it is sent to others|answered .* given to)", line)
        for line in said
    )


def test_a_deadline_goes_by_the_longest_task_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pace = Pace()
    assert pace.due_s(True) == pace.due_s(False) == FIRST_S
    pace.seen(1, 90.0, first=True)
    assert (pace.due_s(True), pace.due_s(False)) == (900.0, FIRST_S)
    pace.seen(10, 1.0)
    assert [pace.due_s(False, attempts) for attempts in (0, 1, 2)] == [LEAST_S, 10 * LEAST_S, 100 * LEAST_S]
    pace.seen(10, 50.0)
    pace.seen(10, 1.0)
    assert (pace.due_s(False), pace.due_s(True)) == (500.0, 900.0)


class Mute(Exception):
    """An error that has no words and cannot be sent."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class Last(BaseException):
    __str__, __reduce__ = Mute.__str__, Mute.__reduce__


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Mute, "^Mute, which does not say"),
        (Last, "cannot compute.*Last, which does not say"),
        (SystemExit, "cannot compute.*SystemExit"),
    ],
)
def test_an_error_that_cannot_be_sent_comes_back_as_words(lasting: str, error: type[BaseException], words: str) -> None:
    def fails(piece: int) -> None:
        raise error(piece)

    with mapped(lasting) as on_workers:
        with pytest.raises((RuntimeError, InputError), match=words):
            list(on_workers(fails, [1]))
        assert list(on_workers(str, [1])) == ["1"]


def _changed(change: Callable[[list[Any]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        made = cloudpickle.loads(content)
        change(made.results[0])
        return cloudpickle.dumps(made)

    return changed


def _row(**columns: Any) -> Callable[[bytes], bytes]:
    return _changed(lambda answer: answer[0][1][0].update(columns))


WRONG: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "none": (lambda content: None, "None, which cannot be read"),
    "junk": (lambda content: b"junk", "b'junk', which cannot be read"),
    "an object": (lambda content: cloudpickle.dumps({1: 2}), r"\{1: 2\}"),
    "no results": (lambda content: cloudpickle.dumps(tasks.Made([], None, 0.1, False)), "0 results for 1 pieces"),
    "fewer points": (_changed(lambda answer: answer.pop()), "1 points for 2 points, the first of them EASY"),
    "no points": (_changed(lambda answer: answer.clear()), r"\[\] for 2 points"),
    "fewer rows": (_changed(lambda answer: answer[0][1].pop()), "0 rows for the 1 of EASY"),
    "no rows": (_changed(lambda answer: answer.__setitem__(0, (answer[0][0], None))), "None for the 1 of EASY"),
    "another point": (_changed(lambda answer: answer.reverse()), "2 points for 2 points"),
    "a missing key": (_row(window=math.nan), "window = nan for EASY"),
    "a missing metric": (_row(mean_wait_s=None), "mean_wait_s = None for EASY"),
    "a word": (_row(awf_s="long"), "awf_s = 'long' for EASY"),
    "another column": (_row(other=1.0), r"\{.* for a row of EASY"),
}
ANSWERED: list[str] = []
KIND = ["", 0]
"""Which answer is wrong, and how often."""


def compute(*asked: Any) -> Any:
    content = tasks.compute(*asked)
    ANSWERED.append(KIND[0])
    return WRONG[KIND[0]][0](content) if len(ANSWERED) <= KIND[1] else content


@pytest.mark.parametrize("kind", WRONG)
def test_an_answer_that_cannot_be_is_asked_for_once_more(lasting: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Campaign(schedulers=("EASY", "JustBF"))
    monkeypatch.setattr(work, "compute", compute)
    for times in (1, 100):
        ANSWERED.clear()
        KIND[:] = [kind, times]
        said: list[str] = []
        with mapped(lasting, say=said.append) as on_workers:
            if times == 1:
                assert_same(run(asked, None, map_points=on_workers), run(asked, None, map_points=serial))
                assert len(said) == 1
                found = re.fullmatch(rf"{lasting}: worker (\S+) answered (.*{WRONG[kind][1]}.*); (\S+) is asked", said[0])
                assert found, said
                assert found[1] != found[3]
            else:
                with pytest.raises(InputError, match=r"worker \S+ answered .*; so did the one before: what is done is kept$"):
                    run(asked, None, map_points=on_workers)
