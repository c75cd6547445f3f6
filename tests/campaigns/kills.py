"""Kill runs, nights, promotions, campaigns and ingestion before any system call that changes a file, or let the disk be full from there on.

A command is stopped before a call, and its files are copied: a kill there would leave them so. Every tenth is killed in truth, and
every tenth meets a full disk, which it may tell or outlast. Then a reader must see the results of before, or the new ones, whole; and the
command, done again, ends as if it had not been disturbed. Calls of the last step, in which a version is published, are taken one after
the other, others at random.
"""

from __future__ import annotations

import errno
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
KILLED = -9
GROWING = ("write", "open", "mkdir", "rename", "fsync", "truncate", "link")
"""Calls that fail where the disk is full."""
SHARES = {"run": 0.14, "night": 0.22, "promotion": 0.28, "campaign": 0.22, "ingestion": 0.14}


def _kill(scene: Scene, attempts: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    rehearsal = rehearsed(scene, folder)
    place, calls = rehearsal.place, rehearsal.calls
    points = chosen(calls, attempts, random_)
    for number, how, code in _left(scene, points, rehearsal.first, place, folder / "left"):
        call = calls[min(number, len(calls) - 1)]
        case = f"{scene.name}{how} before call {number}, {call.name} {Path(call.touched).relative_to(place)}"
        count(counts, scene, case, partial(after, scene, place, rehearsal.before, rehearsal.wanted, code), how)


def _left(scene: Scene, points: list[int], first: Path, place: Path, folder: Path) -> Iterator[tuple[int, str, int]]:
    """Put in ``place`` what a kill at each point leaves; yield its number, how the command was disturbed, and its exit code."""
    call = {"number": -1}

    def copied(_: Call) -> int:
        call["number"] += 1
        if call["number"] in wanted:
            shutil.copytree(place, folder / str(call["number"]))
        return 0

    def killed(_: Call) -> int:
        call["number"] += 1
        return KILL if call["number"] == point else 0

    def full(seen: Call) -> int:
        call["number"] += 1
        return errno.ENOSPC if call["number"] >= point and seen.name in GROWING else 0

    in_truth, on_full_disks = set(points[5::10]), set(points[8::10])
    wanted = set(points) - in_truth - on_full_disks
    restored(first, place)
    undisturbed(scene, place, copied)
    for point in points:
        call["number"] = -1
        if point in in_truth:
            restored(first, place)
            ended = watched(lambda: scene.act(place), place, killed)
            yield point, " (killed in truth)", ended.code
        elif point in on_full_disks:
            restored(first, place)
            ended = watched(lambda: scene.act(place), place, full)
            yield point, " (on a full disk)", ended.code
        elif (folder / str(point)).exists():  # calls of the second time may be a few less
            restored(folder / str(point), place)
            shutil.rmtree(folder / str(point))
            yield point, "", KILLED


campaign = InScenes(SHARES, _kill)
