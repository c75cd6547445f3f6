"""Kill runs, nights, promotions, campaigns and ingestion before any system call that changes a file.

A command is stopped before a call, and its files are copied: a kill there would leave them so. Every tenth is killed in truth. Then a
reader must see the results of before, or the new ones, whole; and the command, done again, ends as if it had not been killed. Calls of
the last step, in which a version is published, are taken one after the other, others at random.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.campaigns.counts import Counts
from tests.campaigns.in_scenes import InScenes, after, chosen, count, rehearsed, restored, undisturbed
from tests.support.scenes import Scene
from tests.support.system_calls import KILL, Call, watched

ATTEMPTS = 500
SHARES = {"run": 0.14, "night": 0.22, "promotion": 0.28, "campaign": 0.22, "ingestion": 0.14}


def _kill(scene: Scene, attempts: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    rehearsal = rehearsed(scene, folder)
    place, calls = rehearsal.place, rehearsal.calls
    points = chosen(calls, attempts, random_)
    for number, killed in _left(scene, points, rehearsal.first, place, folder / "left"):
        call = calls[min(number, len(calls) - 1)]
        case = f"{scene.name} killed before call {number}, {call.name} {Path(call.touched).relative_to(place)}"
        count(
            counts, scene, case, partial(after, scene, place, rehearsal.before, rehearsal.wanted), " (in truth)" if killed else ""
        )


def _left(scene: Scene, points: list[int], first: Path, place: Path, folder: Path) -> Iterator[tuple[int, bool]]:
    """Put in ``place`` what a kill at each point leaves; yield its number, and if it was killed in truth."""
    call = {"number": -1}

    def copied(_: Call) -> int:
        call["number"] += 1
        if call["number"] in wanted:
            shutil.copytree(place, folder / str(call["number"]))
        return 0

    def killed(_: Call) -> int:
        call["number"] += 1
        return KILL if call["number"] == point else 0

    in_truth = set(points[5::10])
    wanted = set(points) - in_truth
    restored(first, place)
    undisturbed(scene, place, copied)
    for point in points:
        call["number"] = -1
        if point in in_truth:
            restored(first, place)
            watched(lambda: scene.act(place), place, killed)
        elif (folder / str(point)).exists():  # calls of the second time may be a few less
            restored(folder / str(point), place)
            shutil.rmtree(folder / str(point))
        else:
            continue
        yield point, point in in_truth


campaign = InScenes(SHARES, _kill)
