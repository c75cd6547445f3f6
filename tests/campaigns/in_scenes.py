"""What campaigns over the scenes of :mod:`tests.support.scenes` share: attempts shared out, a first, undisturbed act, and what is seen in the end."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.counts import Counts
from tests.support.scenes import SCENES, Scene, forked, version_followed, warm
from tests.support.system_calls import Answer, Call, available, watched

_BEFORE, _AFTER = 40, 120
"""Calls of the last step: so many before the pointer is put, and so many after."""


@dataclass(frozen=True)
class Rehearsed:
    """A scene acted once in ``place``; ``first`` is a copy from before.

    ``before`` is what readers saw before, ``wanted`` the result, ``calls`` those that changed a file.
    """

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
    return Rehearsed(place, first, before, forked(lambda: scene.result(place)), calls)


def undisturbed(scene: Scene, place: Path, answer: Answer) -> None:
    """Act ``scene`` while ``answer`` looks at its calls; RuntimeError where it fails."""
    ended = watched(lambda: scene.act(place), place, answer)
    if ended.code:
        raise RuntimeError(f"{scene.name} {ended.how}")


@dataclass(frozen=True)
class InScenes:
    """A campaign: attempts, shared among scenes by their ``shares``.

    ``disturb`` makes those of one scene in a folder of its own, which is removed. Where calls cannot be watched there are none.
    """

    shares: Mapping[str, float]
    disturb: Callable[[Scene, int, random.Random, Path, Counts], None]

    def __call__(self, attempts: int, seed: int, folder: Path, *scenes: str) -> Counts:
        """Count what comes of ``attempts`` in some scenes, by default all."""
        counts, random_, scenes = Counts(), random.Random(seed), scenes or tuple(self.shares)
        if not available():
            return Counts(0, Counter({"not possible on this system": 1}))
        warm(folder / "warm", scenes)
        whole = sum(self.shares[name] for name in scenes)
        for name in scenes:
            self.disturb(SCENES[name], max(1, round(attempts * self.shares[name] / whole)), random_, folder / name, counts)
            shutil.rmtree(folder / name)
        return counts


def chosen(calls: list[Call], attempts: int, random_: random.Random) -> list[int]:
    """Return the numbers of calls to kill before: the last step's first, others at random."""
    puts = [number for number, call in enumerate(calls) if "/lake/current/" in call.touched and ".json" in call.touched]
    last = list(range(max(puts[0] - _BEFORE, 0), min(puts[-1] + _AFTER, len(calls)))) if puts else []
    if len(last) > attempts * 2 // 3:
        last = sorted({*puts[:8], *random_.sample(last, attempts * 2 // 3)})
    rest = sorted(set(range(len(calls))) - set(last))
    return sorted([*last, *random_.sample(rest, min(max(attempts - len(last), 0), len(rest)))])


def restored(source: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(source, place)


def count(counts: Counts, scene: Scene, case: str, seen: Callable[[], str], mark: str = "") -> None:
    """Count what is ``seen`` in a fork after the ``case``; where that raises, it is a finding."""
    try:
        counts.add(f"{scene.name}: {forked(seen)}{mark}")
    except AssertionError as error:
        counts.add(f"{scene.name}: LOST", f"{case}: {error}")


def after(scene: Scene, place: Path, before: Any, wanted: Any, code: int = 1) -> str:
    """Return what a reader sees after a command that ended with ``code``.

    AssertionError where anything is lost, before or after the command is done again.
    """
    now, outcome = scene.seen(place), "as before"
    if isinstance(before, dict) and "version" in before:
        if now["version"] == before["version"]:
            assert code, "nothing was published"
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
