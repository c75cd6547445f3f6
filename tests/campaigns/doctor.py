"""Kill ten commands one after the other in one home, and let the doctor repair it.

It must find nothing after its repair, and what was published must be as readers saw it before; the command then ends as it should.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.campaigns.counts import Counts
from tests.campaigns.in_scenes import InScenes
from tests.support.scenes import Scene, forked, queuecast, version_followed
from tests.support.system_calls import KILL, Call, watched

ATTEMPTS = 40
KILLS = 10


def _disturb(scene: Scene, attempts: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    for number in range(max(attempts // KILLS, 1)):
        _treat(scene, min(KILLS, attempts), random_, folder / str(number), counts)


def _treat(scene: Scene, kills: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    counted, place = folder / "counted", folder / "place"
    counted.mkdir(parents=True)
    forked(lambda: scene.prepare(counted))
    calls = watched(lambda: scene.act(counted), counted, lambda call: 0).calls
    place.mkdir()
    forked(lambda: scene.prepare(place))
    for _ in range(kills):
        watched(lambda: scene.act(place), place, _dies(random_.randrange(calls)))
        counts.add(f"{scene.name}: killed")
    before = forked(lambda: scene.seen(place))
    first, findings = _doctor(place)
    code, repaired = _doctor(place, "--repair")
    last, left = _doctor(place)
    now = forked(lambda: scene.seen(place))
    for finding in findings:
        counts.outcomes[f"doctor: {finding['part']}, {finding['mend']}"] += 1
    case = f"{scene.name} after {kills} kills"
    if (first, code, last) != (int(bool(findings)), 0, 0) or left:
        counts.findings.append(f"{case}: exit codes {first}, {code}, {last}; left: {[each['what'] for each in left]}")
    if bool(findings) != bool(repaired):
        counts.findings.append(f"{case}: found {len(findings)}, and repaired {len(repaired)}")
    changed = {name for name in before if before[name] != now[name] and name not in ("aliases", "pages")}
    if changed or ("version" in now and version_followed(place, now)):
        counts.findings.append(f"{case}: the doctor changed {sorted(changed)} of what was published")
    again = watched(lambda: scene.act(place), place, None)
    if again.code:
        counts.findings.append(f"{case}: the next one {again.how}")


def _dies(left: int):
    def decide(_: Call) -> int:
        nonlocal left
        left -= 1
        return KILL if left < 0 else 0

    return decide


def _doctor(place: Path, *options: str) -> tuple[int, list[dict[str, str]]]:
    done = watched(lambda: queuecast(place, "doctor", "--json", *options), place, None)
    findings = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    if done.code not in (0, 1):
        raise RuntimeError(f"doctor {done.how}")
    return done.code, findings


campaign = InScenes(dict.fromkeys(("run", "night", "promotion", "ingestion"), 0.25), _disturb)
