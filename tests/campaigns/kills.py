"""Kill runs, nights, promotions, campaigns and ingestion before any system call that changes a file.

A command is stopped before a call, and its files are copied: a kill there would leave them so. Every tenth is killed in truth. Then a
reader must see the results of before, or the new ones, whole; and the command, done again, ends as if it had not been killed. Calls of
the last step, in which a version is published, are taken one after the other, others at random.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.campaigns.apart import answer, apart
from tests.campaigns.counts import Counts
from tests.campaigns.in_scenes import rehearsed, shared_out, undisturbed
from tests.support.scenes import SCENES, Scene, forked, version_followed
from tests.support.system_calls import KILL, Call, watched

ATTEMPTS = 500
SHARES = {"run": 0.14, "night": 0.22, "promotion": 0.28, "campaign": 0.22, "ingestion": 0.14}
_BEFORE, _AFTER = 40, 120
"""Calls of the last step: so many before the pointer is put, and so many after."""


def campaign(attempts: int, seed: int, folder: Path, scenes: tuple[str, ...] = tuple(SCENES)) -> Counts:
    """Kill ``attempts`` times, shared among the ``scenes``."""
    return apart("tests.campaigns.kills", attempts, seed, folder, *scenes)


def _campaign(attempts: int, seed: int, folder: Path, *scenes: str) -> Counts:
    return shared_out(attempts, seed, folder, SHARES, scenes, _kill)


def _kill(scene: Scene, attempts: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    made = rehearsed(scene, folder)
    place, calls = made.place, made.calls
    points = chosen(calls, attempts, random_)
    for number, killed in _left(scene, points, made.first, place, folder / "left"):
        call = calls[min(number, len(calls) - 1)]
        said = f"{scene.name} killed before call {number}, {call.name} {Path(call.touched).relative_to(place)}"
        try:
            outcome = forked(lambda: after(scene, place, made.before, made.wanted))
            counts.add(f"{scene.name}: {outcome}{' (in truth)' if killed else ''}")
        except AssertionError as error:
            counts.add(f"{scene.name}: LOST", f"{said}: {error}")


def chosen(calls: list[Call], attempts: int, random_: random.Random) -> list[int]:
    """Return the numbers of calls to kill before: the last step's first, others at random."""
    puts = [number for number, call in enumerate(calls) if "/lake/current/" in call.touched and ".json" in call.touched]
    last = list(range(max(puts[0] - _BEFORE, 0), min(puts[-1] + _AFTER, len(calls)))) if puts else []
    if len(last) > attempts * 2 // 3:
        last = sorted({*puts[:8], *random_.sample(last, attempts * 2 // 3)})
    rest = sorted(set(range(len(calls))) - set(last))
    return sorted([*last, *random_.sample(rest, min(max(attempts - len(last), 0), len(rest)))])


def _left(scene: Scene, points: list[int], first: Path, place: Path, folder: Path) -> Iterator[tuple[int, bool]]:
    """Put in ``place`` what a kill at each point leaves; yield its number, and if it was killed in truth."""
    told = {"number": -1}

    def copied(_: Call) -> int:
        told["number"] += 1
        if told["number"] in wanted:
            shutil.copytree(place, folder / str(told["number"]))
        return 0

    def killed(_: Call) -> int:
        told["number"] += 1
        return KILL if told["number"] == point else 0

    in_truth = set(points[5::10])
    wanted = set(points) - in_truth
    restored(first, place)
    undisturbed(scene, place, copied)
    for point in points:
        told["number"] = -1
        if point in in_truth:
            restored(first, place)
            watched(lambda: scene.act(place), place, killed)
        elif (folder / str(point)).exists():  # calls of the second time may be a few less
            restored(folder / str(point), place)
            shutil.rmtree(folder / str(point))
        else:
            continue
        yield point, point in in_truth


def restored(source: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(source, place)


def after(scene: Scene, place: Path, before: Any, wanted: Any) -> str:
    """Return what a reader sees after a kill; AssertionError where anything is lost, before or after the command is done again."""
    now, outcome = scene.seen(place), "as before"
    if isinstance(before, dict) and "version" in before:
        if now["version"] == before["version"]:
            assert now == before, f"the version before is not whole: {now}, not {before}"
        else:
            outcome = "new" if not version_followed(place, now) else "new, mended"
            scene.mend(place)
            wrong = version_followed(place, scene.seen(place))
            assert not wrong, f"the new version is not whole: {wrong}"
    elif now != before:
        outcome = "new"
    again = watched(lambda: scene.act(place), place, None)
    assert again.code == 0, f"done again it {again.how}"
    scene.mend(place)
    last = scene.result(place)
    assert last == wanted, f"done again it is {last}, not {wanted}"
    return outcome


if __name__ == "__main__":
    answer(_campaign)
