"""What campaigns over the scenes of :mod:`tests.support.scenes` share: attempts shared out, and a first, undisturbed act."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.counts import Counts
from tests.support.scenes import SCENES, Scene, forked, warm
from tests.support.system_calls import Answer, Call, available, watched


@dataclass(frozen=True)
class Rehearsed:
    """A scene acted once in ``place``; ``first`` is a copy from before.

    ``before`` is what readers saw before, ``wanted`` the result, ``calls`` those that changed a file.
    """

    scene: Scene
    place: Path
    first: Path
    before: Any
    wanted: Any
    calls: list[Call]


def rehearsed(scene: Scene, folder: Path) -> Rehearsed:
    """Prepare ``scene`` in ``folder`` and act it once, undisturbed."""
    place, first = folder / "place", folder / "first"
    place.mkdir(parents=True)
    forked(lambda: scene.prepare(place))
    shutil.copytree(place, first)
    before = forked(lambda: scene.seen(place))
    calls: list[Call] = []
    undisturbed(scene, place, lambda call: calls.append(call) or 0)
    return Rehearsed(scene, place, first, before, forked(lambda: scene.result(place)), calls)


def undisturbed(scene: Scene, place: Path, answer: Answer) -> None:
    """Act ``scene`` while ``answer`` looks at its calls; RuntimeError where it fails."""
    ended = watched(lambda: scene.act(place), place, answer)
    if ended.code:
        raise RuntimeError(f"{scene.name} {ended.how}")


def shared_out(
    attempts: int,
    seed: int,
    folder: Path,
    shares: Mapping[str, float],
    scenes: Iterable[str],
    disturb: Callable[[Scene, int, random.Random, Path, Counts], None],
) -> Counts:
    """Count what comes of ``attempts``, shared among the ``scenes`` by their ``shares``.

    ``disturb`` makes those of one scene in a folder of its own, which is removed. Where calls cannot be watched there are none.
    """
    counts, random_, scenes = Counts(), random.Random(seed), tuple(scenes)
    if not available():
        return Counts(0, Counter({"not possible on this system": 1}))
    warm(folder / "warm", scenes)
    whole = sum(shares[name] for name in scenes)
    for name in scenes:
        disturb(SCENES[name], max(1, round(attempts * shares[name] / whole)), random_, folder / name, counts)
        shutil.rmtree(folder / name)
    return counts
