"""Two runs of one subject that publish again and again, and are killed: a reader sees whole versions, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import python

RACING = """
import os, random, signal, sys, time, traceback
from pathlib import Path
import pandas as pd
from pipelines.lake.tables import Lake
from pipelines.lake.publishing import alone

home, kills = Path(sys.argv[1]), int(sys.argv[2])

def publish(maker, number):
    lake = Lake(home / "lake", maker)
    with alone(home, "t", 60):
        for table in ("jobs", "runtime_features", "schedules"):
            lake.write(table, "t", pd.DataFrame({"number": [number]}))
        lake.write_page("t.html", "runtime-t", str(number))
        assert lake.versions("runtime-t").publish(maker).left_out == {}

def seen():
    lake = Lake(home / "lake").at_once("runtime-t")
    return {int(lake.read(table, "t")[0]["number"].iloc[0]) for table in ("jobs", "runtime_features", "schedules")}

def writer(seed):
    if process := os.fork():
        return process
    numbers = random.Random(seed)
    try:
        while True:
            number = numbers.randrange(1 << 40)
            publish(f"run {number}", number)
    except BaseException:
        traceback.print_exc()
    os._exit(1)

publish("first", 0)
moments, writers, versions = random.Random(0), [writer(1), writer(2)], set()
for kill in range(kills):
    time.sleep(moments.uniform(0, 0.1))
    place = moments.randrange(2)
    os.kill(writers[place], signal.SIGKILL)
    assert os.waitpid(writers[place], 0)[1] == signal.SIGKILL, "it ended by itself"
    numbers = seen()
    assert len(numbers) == 1, numbers
    versions |= numbers
    writers[place] = writer(kill + 3)
for process in writers:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
publish("last", 7)
assert seen() == {7}
assert (home / "reports" / "t.html").read_text() == "7"
print(len(versions))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.thorough)])
def test_two_writers_that_are_killed_lose_nothing(tmp_path: Path, kills: int) -> None:
    done = python(["-c", RACING, str(tmp_path), str(kills)])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1, "versions that readers saw between the kills"
