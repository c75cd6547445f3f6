"""``queuecast when`` answers by the site's own scheduler, or by the registered model, and says which."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import queuecast
from features.clock import DAY_S
from features.errors import InputError
from pipelines.cli.when import when as command
from pipelines.cli.when_answers import _job, _lines, _now, _table
from pipelines.lake.tables import Lake
from pipelines.studies.when import past_limits
from pipelines.training.ledger import replay
from pipelines.training.night import replay_nights
from sim.slurm.site import Site
from sim.starts.reasons import Reason
from tests.conftest import SHARED, needs
from tests.support.queues import waited

HEAD = "JOBID|STATE|USER|PARTITION|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME"
OF_SLURM = "|ACCOUNT|QOS|TRES_ALLOC|NODELIST|REASON|FEATURES|DEPENDENCY"


def asked(path: Path, *arguments: object) -> tuple[str, str]:
    """Return what the command prints and notes."""
    done = CliRunner().invoke(command, [*map(str, arguments), "--queue", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_the_moment_of_a_question_is_local_or_says_its_zone(tmp_path: Path) -> None:
    clean = waited(jobs=5)  # Europe/Stockholm, from 2023-11-14 22:13:20 UTC on
    moments = ("60", "2023-11-14T23:14:20", "2023-11-14T22:14:20Z", "2023-11-14T17:14:20-05:00")
    assert {_now(clean, moment, tmp_path) for moment in moments} == {60}
    assert _now(clean, None, tmp_path / "squeue-20231114T221420Z.txt") == 60, "the name of the snapshot says it"
    for moment in ("now", "today", "noon"):
        with pytest.raises(InputError, match=f"--now '{moment}': is neither a local time such as"):
            _now(clean, moment, tmp_path)


@pytest.mark.parametrize("procs", ["0", "1.5", "²"])
def test_processors_of_a_new_job_are_a_whole_number(procs: str) -> None:
    with pytest.raises(InputError, match="procs is a whole number of at least 1"):
        _job(f"procs={procs} time=1:00", 1, 0)


@pytest.mark.slow
@needs(SHARED / "slurm")
def test_a_slurm_sites_scheduler_tells_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    path, of = tmp_path / "squeue.txt", "physics|normal|cpu=12,mem=36000M,node=1"
    path.write_text(
        f"{HEAD}{OF_SLURM}\n"
        f"900|RUNNING|u1|normal|12|10:00|2026-12-01T09:00:00|2026-12-01T09:00:05|{of}|b1|None|bigmem|(null)\n"
        f"901|RUNNING|u1|normal|12|10:00|2026-12-01T09:00:00|2026-12-01T09:00:05|{of}|b2|None|bigmem|(null)\n"
        f"902|PENDING|u2|normal|12|10:00|2026-12-01T09:01:00|N/A|{of}||Resources|bigmem|(null)\n"
    )
    site = SHARED / "slurm/micro-1.sacct.txt", "--machine", SHARED / "slurm/sites/micro", "--now"
    printed, _ = asked(path, *site, "2026-12-01T09:02:00", "--job", "procs=1 time=1:00 user=u3 queue=*")
    assert "it waits because" not in printed
    of_places = [
        line for line in printed.splitlines() if re.match(r"  in .*(debug|normal) with QOS .*: expected to start in ", line)
    ]
    assert len({re.sub(r"  in .*?: ", "", line) for line in of_places}) == len(of_places) > 0, "equal places share a line"
    assert {"debug", "normal"} <= {*re.findall(r"(\w+) with QOS", " ".join(of_places))}
    assert re.search(
        r"a new job \(1 processor, limit 60 s\), seen at 2026-12-01 09:02: expected to start (now|in \d+ s)\n", printed
    )
    assert "Predicted by 64 simulations of the next 24 h with the Slurm of cluster 'parity'." in printed
    few = "--scenarios", "8"
    waits = json.loads(asked(path, *site, "2026-12-01T09:02:00", "--id", "902", "--json", *few)[0])
    assert waits["wait_10_s"] > 1, "only two nodes have what it asks for"
    assert (waits["reason"]["why"], waits["reason"]["by_slurm"], waits["reason"]["ahead"]) == ("resources", "Resources", 0)
    table = queuecast.when(site[0], path, machine=site[2], now="2026-12-01T09:02:00", ids="902", scenarios=8)
    assert table.to_dict("records") == [waits]
    assert table.attrs["by"] == "8 simulations of the next 24 h with the Slurm of cluster 'parity'"
    printed, _ = asked(path, *site, "2026-12-01T09:03:00", "--id", "902", *few)
    assert "it waits because too few processors, or other resources, are free (Slurm says Resources)" in printed
    with pytest.raises(InputError, match=r"queue=\*: no partition of parity has time for the job and nodes that suit it"):
        queuecast.when(site[0], path, machine=site[2], now="2026-12-01T09:03:00", jobs="procs=1 time=3-00:00:00 queue=*")
    of_kind = asked(path, *site, "2026-12-01T09:02:00", "--job", "procs=1 time=1:00 user=u3 queue=* features=bigmem", *few)[0]
    assert (" normal with QOS" in of_kind, " debug with QOS" in of_kind) == (True, False), "no node of debug has the feature"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("undrawn_pictures", "quick_methods")
def test_nights_in_one_process_learn_starts_and_the_model_tells_them_on_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    source = replay(waited())
    nights = [midnight for midnight in source.midnights if 30 * DAY_S <= midnight < 32 * DAY_S]
    assert len([*replay_nights(source, nights, tmp_path, starts=True)]) == 2
    rows = Lake(tmp_path / "lake").read("starts", "waited")[0]
    assert rows["at_s"].between(*nights).all()
    assert rows["score"].notna().any()
    path = tmp_path / "queue.txt"
    path.write_text(f"{HEAD}\n9001|PENDING|user1|long|16|2:00:00|2023-12-20T09:01:00|N/A\n")
    printed, noted = asked(path, "waited", "--machine", tmp_path, "--now", "2023-12-20T09:02:00")
    assert re.search(
        r"job 9001 \(16 processors, limit 2\.0 h\), seen at 2023-12-20 09:0\d: expected to start (now|in \d+ s)\n", printed
    )
    assert re.search(r"such answers in the last 30 days: off by .*; 80 % intervals held \d+%", printed)
    assert re.search(r"Predicted by start-waited version \d from 64 EASY simulations of the queue\.", printed)
    assert "has no column account, so one pool under EASY replaces" in noted
    _, noted = asked(path, "waited", "--now", "2023-12-20T09:02:00", "--job", "procs=1 time=1:00 user=nobody queue=none")
    assert "1 of 2 jobs is of a user without earlier jobs in waited, such as 'nobody': other jobs predict them" in noted
    assert "1 of 2 jobs is of a queue without" in noted


def test_a_start_within_this_minute_is_told_in_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    record: dict = {"job_id": "7", "procs": 1, "requested_s": 60, "now": "04:21", "changes": [], "last_30_days": {"answers": 0}}
    record |= {"reason": vars(Reason("next")), "moved": [], "places": []}
    record |= {f"at_{level}": "04:21" for level in ("10", "25", "50", "75", "90")}
    record |= {f"wait_{level}_s": seconds for level, seconds in (("10", 1), ("25", 2), ("50", 3), ("75", 20), ("90", 30))}
    record |= dict.fromkeys(("chance_10m", "chance_1h", "chance_4h", "chance_24h"), 1.0)
    first, second, _ = _lines(record)
    assert first == "job 7 (1 processor, limit 60 s), seen at 04:21: expected to start in 3 s"
    assert second == "  with a chance of 80 % it starts in 1 s to 30 s, of 50 % in 2 s to 20 s"
    at_once = record | {f"wait_{level}_s": 0 for level in ("10", "25", "50", "75", "90")}
    first, second, _ = _lines(at_once)
    assert first.endswith("expected to start now")
    assert second == "  with a chance of 80 % it starts now, of 50 % now"
    later = {
        "at_50": "04:30",
        "at_75": "05:00",
        "at_90": "later than 06:00",
        "wait_50_s": 540,
        "wait_75_s": 2_340,
        "wait_90_s": 5_940,
    }
    first, second, *_ = _lines(record | later)
    assert first.endswith("seen at 04:21: expected to start at 04:30, in 9.0 min")
    assert second == "  with a chance of 80 % it starts between now and later than 06:00, of 50 % between now and 05:00"
    used = record | {"reason": vars(Reason("limit", limit="QOS few, user u, jobs: 4 of 4 used")), "last_30_days": {"answers": 1}}
    used["last_30_days"] |= {"median_error_s": 3.0, "held_80": 1.0}
    lines = _lines(used)
    assert any("a running job ends within a minute and frees it" in line for line in lines)
    assert any(line.startswith("  1 such answer in") for line in lines)
    _table([record | later | {"job_id": "8"}, record]).show()
    table = capsys.readouterr().out
    assert table.index("\n7 ") < table.index("\n8 "), "the soonest first"


def test_running_jobs_past_their_limits_show_that_the_time_of_a_snapshot_is_wrong() -> None:
    site = Site(name="s", nodes=(), partitions={}, qos={}, associations=(), settings={"overtimelimit": "60"})
    queue = pd.DataFrame({"runs": [True, True, False], "start_unix_s": [0, 0, None], "requested_s": [180, 10**6, 180]})
    assert past_limits(queue, 180 + 2 * 3600, site) == 0, "OverTimeLimit is an hour"
    assert past_limits(queue, 181 + 2 * 3600, site) == 1
    assert past_limits(queue, 181 + 2 * 3600, None) == 0, "elsewhere a job may run on"
    assert past_limits(queue.assign(requested_s=180), 181 + 3600, None) == 2
    endless = replace(site, settings={"overtimelimit": "UNLIMITED"})
    assert past_limits(queue, 10**9, endless) == 0
