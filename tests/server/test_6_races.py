"""Many writers on many machines, some killed: readers see whole versions, with PostgreSQL's locks."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TextIO

from tests.server.services import module
from tests.server.site import Site
from tests.support.patience import wait_until

PUBLISHED, KILLS, READS, MOST = 5, 3, 10, 300
"""How much must have happened until writers and reader are stopped, and the max attempts to publish in which it must."""


def env_of(site: Site, machine: str) -> dict[str, str]:
    """Return a machine's settings."""
    return site.machine(machine, QUEUECAST_LAKE="s3://site/raced")


def counts(log: TextIO) -> Counter[str]:
    """Return how often each line was said so far."""
    return Counter(Path(log.name).read_text().split("\n")[:-1])


def test_versions_are_whole_while_writers_on_three_machines_are_killed(site: Site) -> None:
    random.seed(0)
    log, reader_log = ((site.root / f"{what}.log").open("w+") for what in ("writers", "reader"))

    def writer(number: int) -> subprocess.Popen:
        code = "from tests.server.racing import write_forever; write_forever()"
        command = [*module("tests.server.program"), code]
        return subprocess.Popen(command, env=env_of(site, f"writer-{number}"), cwd=site.root, stdout=log, stderr=log)

    writers = [writer(number) for number in range(3)]
    try:
        read = "from tests.server.racing import read_forever; read_forever()"
        reader = subprocess.Popen(
            [*module("tests.server.program"), read],
            env=env_of(site, "reader"),
            cwd=site.root,
            stdout=reader_log,
            stderr=reader_log,
        )

        def attempted(before: int) -> bool:
            assert reader.poll() is None, counts(reader_log)
            return counts(log).total() > before

        kills = 0
        while kills < KILLS or counts(log)["published"] < PUBLISHED or counts(reader_log)["whole"] < READS:
            begun, before = time.monotonic(), counts(log).total()
            assert before < MOST, (counts(log), counts(reader_log))
            wait_until(partial(attempted, before), site.root, lambda: (counts(log), counts(reader_log)))
            time.sleep(random.uniform(0, time.monotonic() - begun))  # at any moment of the next attempt, as long as this one
            number = random.randrange(3)
            writers[number].send_signal(signal.SIGKILL)
            writers[number].wait()
            writers[number] = writer(number)
            kills += 1
    finally:
        for each in [*writers, reader]:
            each.kill()
            each.wait()
    assert set(counts(log)) <= {"published", "refused"}, counts(log)
    assert set(counts(reader_log)) == {"whole"}, counts(reader_log)

    now = """
from pipelines.storage.home import home
from tests.server.racing import SUBJECT, TABLES, publish, seen
number = publish("last")
assert set(seen().values()) == {number}
assert (home() / "reports" / "raced.html").read_text() == str(number)
"""
    site.python(now, env=env_of(site, "writer-0"))


def test_a_lock_ends_with_its_holder_and_is_lost_with_the_database(site: Site) -> None:
    holding = """
import signal
from pathlib import Path
from pipelines.storage.locks import held
with held(Path("/site/x.lock")):
    print("held", flush=True)
    signal.pause()
"""
    env = site.machine("holder")
    with subprocess.Popen(
        [*module("tests.server.program"), holding], env=env, cwd=site.root, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        wait_until(lambda: select.select([holder.stdout], [], [], 0)[0], site.root)
        assert holder.stdout.readline() == "held\n"
        asked = """
from pathlib import Path
from pipelines.storage.locks import Busy, held
for most_s in (MOST):
    try:
        with held(Path("/site/x.lock"), most_s):
            print("got it")
    except Busy:
        print("busy")
"""
        assert site.python(asked.replace("MOST", "0, 0.5"), env=site.machine("asker")).split() == ["busy", "busy"]
        holder.kill()
    assert site.python(asked.replace("MOST", "None, 0"), env=site.machine("asker")).splitlines() == ["got it", "got it"]
    lost = """
from pathlib import Path
from features.errors import InputError
from pipelines.storage.database import connected
from pipelines.storage.locks import held
import os
with held(Path("/site/y.lock")) as check:
    check()
    with connected(os.environ["QUEUECAST_DATABASE"]).cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    try:
        check()
    except InputError as error:
        print(error)
"""
    assert "its lock was lost, nothing was changed" in site.python(lost, env=site.machine("asker"))
