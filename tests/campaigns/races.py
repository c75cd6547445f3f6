"""Run every pair of commands at once on one home directory.

Each ends with exit code 0, or with the line that another is at work. What readers see then is one version whole, whose tables are of the
same jobs and whose aliases and pages follow it; the doctor has nothing left to repair after its repair.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path

from tests.campaigns.counts import Counts
from tests.campaigns.in_scenes import restored
from tests.support import scenes
from tests.support.scenes import SCENES, forked, queuecast, version_followed, version_seen, warm
from tests.support.system_calls import Ended, together

LESS = ("--scheduler", "EASY")
COMMANDS: Mapping[str, Callable[[Path], int]] = {
    "run": lambda place: scenes.run(place),
    "nights": lambda place: scenes.night(place, 21),
    "campaign": SCENES["campaign"].act,
    "ingest": SCENES["ingestion"].act,
    "predict": lambda place: queuecast(place, "predict", "--model", scenes.MODEL, "asked.csv"),
    "simulate": lambda place: queuecast(place, "simulate", "arriving.parquet", *LESS, "--json"),
    "doctor": lambda place: queuecast(place, "doctor", "--repair"),
    "forget": lambda place: queuecast(place, "traces", "--forget", "arriving"),
    "evaluate": lambda place: queuecast(place, "evaluate", "arriving.parquet", "--predictor", "last2"),
}
PAIRS = tuple(combinations_with_replacement(COMMANDS, 2))
ATTEMPTS = 2 * len(PAIRS)
_OF_STARTS = ("queue_states", "start_model", "starts")
"""Tables that a night without starts leaves as they were."""
AT_WORK = re.compile(
    r"another (night or run|process) |was published after .* had begun: begin again|database is locked|is not a trace that was run|no longer in the catalogue"
)
"""Lines with which a command may end that finds another at work; the last two are of a trace that the other forgot."""


def campaign(attempts: int, seed: int, folder: Path, *named: str) -> Counts:
    """Run ``attempts`` pairs, or those that are ``named``, such as "run,doctor"."""
    counts, random_ = Counts(), random.Random(seed)
    asked = [tuple(each.split(",")) for each in named] or [PAIRS[number % len(PAIRS)] for number in range(attempts)]
    models = bool({command for pair in asked for command in pair} & {"run", "nights", "predict"})
    if models:
        warm(folder / "warm", ["run", "night", "ingestion", "campaign"])
    place, first = folder / "place", folder / "first"
    place.mkdir()
    forked(lambda: _prepare(place, models))
    shutil.copytree(place, first)
    for pair in asked:
        restored(first, place)
        late = random_.choice((0.0, random_.uniform(0, 1.5)))
        ended = together([partial(COMMANDS[pair[0]], place), partial(_later, late, COMMANDS[pair[1]], place)])
        _judge(place, pair, late, ended, counts)
    return counts


def _prepare(place: Path, models: bool) -> None:
    SCENES["ingestion"].prepare(place)
    scenes.accounting(place, 25)
    if models:
        scenes.run(place)
    (place / "asked.csv").write_text("user,procs,requested_s,submit_time\nuser01,4,3600,2023-12-10 09:00:00\n")


def _later(seconds: float, command: Callable[[Path], int], place: Path) -> int:
    time.sleep(seconds)
    return command(place)


def _judge(place: Path, pair: tuple[str, ...], late: float, ended: list[Ended], counts: Counts) -> None:
    wrong = []
    for name, each in zip(pair, ended, strict=True):
        last = each.output.strip().splitlines()[-1] if each.output.strip() else ""
        if each.hung:
            wrong.append(f"{name} {each.how}")
        elif "Traceback" in each.output or "defect" in last:
            wrong.append(f"{name}: {each.output.strip()[-300:]}")
        elif each.code and not (name == "doctor" and each.code == 1) and not AT_WORK.search(last):
            wrong.append(f"{name} ends with {each.code}: {last}")
    try:
        forked(lambda: _whole(place))
    except AssertionError as error:
        wrong.append(str(error))
    counts.add(
        " and ".join("done" if each.code == 0 else "a line" for each in sorted(ended, key=lambda each: each.code)),
        f"{pair[0]} and, {late:.2f} s later, {pair[1]}: {'; '.join(wrong)}" if wrong else None,
    )


def _whole(place: Path) -> None:
    """AssertionError where what readers see is a mixture, or where the doctor cannot mend what is left."""
    from pipelines.storage.lake import Lake

    lake = Lake(place / "home" / "lake").at_once(scenes.MODEL)
    if files := lake.versions(scenes.MODEL).current().files:
        SCENES["run"].mend(place)
        wrong = version_followed(place, version_seen(place))
        assert not wrong, wrong
        anew = [table for table in files if table not in _OF_STARTS and not table.startswith("reports/")]
        made_of = {lake.read(table, "arriving")[1].get("jobs") for table in anew} - {None}
        assert len(made_of) == 1, f"tables of {len(made_of)} different jobs: {sorted(files)}"
    for options in (("--repair",), ()):
        done = together([lambda options=options: queuecast(place, "doctor", "--json", *options)])[0]
        left = [json.loads(line)["what"] for line in done.output.splitlines() if line.startswith("{")]
        assert done.code == 0, f"doctor {' '.join(options)} ends with {done.code}: {left or done.output[-300:]}"
