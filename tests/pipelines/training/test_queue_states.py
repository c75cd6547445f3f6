"""The queue of a Slurm site at moments: what runs and nights learn of it, and what then answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from models.packed.start_predictor import EASY, SLURM, STARTS
from models.registry.start_registration import load
from pipelines.cli.when_answers import answered
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake, keep_features, read_features
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.queue_file import OF_SLURM
from pipelines.readers.read import cleaned_for, read_trace
from pipelines.studies.questions import WhenSettings
from pipelines.training import queue_states
from pipelines.training.queue_states import keep_states, read_states
from pipelines.training.starts import keep_start_model
from pipelines.training.work import Cutoff, Work, point_champions
from tests.support.queues import PROCS, waited

CONF = f"""ClusterName=site
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n1 CPUs={PROCS}
PartitionName=batch Nodes=ALL Default=YES MaxTime=7-0
"""
HEAD = "JobID|JobIDRaw|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|ReqTRES|NodeList"
HEAD_OF_QUEUE = "JOBID|STATE|USER|PARTITION|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME"
UNTIL_S, ORIGIN_S = 30 * DAY_S, int(waited().jobs["submit_s"].iloc[0]) + 1_700_000_000
"""The second 0 of the site's trace is its first submission."""


def local(unix_s: int) -> str:
    return f"{pd.Timestamp(unix_s, unit='s'):%Y-%m-%dT%H:%M:%S}"


def accounting(path: Path) -> None:
    """Write the jobs that :func:`waited` has as a site's accounting, all as tasks of one array."""
    clean, lines = waited(), [HEAD]
    for job in clean.jobs.itertuples():
        submit = int(job.submit_s) + (clean.origin_unix_s or 0)  # type: ignore[arg-type]
        start, ran = submit + int(job.wait_s), int(job.runtime_s)  # type: ignore[arg-type]
        times = "|".join(map(local, (submit, submit, start, start + ran)))
        names = f"{job.user}|all|batch|normal|COMPLETED|{times}|{ran}|{-(-int(job.requested_s) // 60)}"  # type: ignore[arg-type]
        lines.append(f"7_{job.job_id}|{int(job.job_id) + 1000}|{names}|{job.procs}|cpu={job.procs},node=1|n1")  # type: ignore[arg-type]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    accounting(tmp_path / "site.txt")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/slurm.conf").write_text(CONF)
    settings = f'place = "site.txt"\nmachine = "conf"\ntimezone = "UTC"\nprocs = {PROCS}\n'
    (tmp_path / "queuecast.toml").write_text(f"[traces.site]\n{settings}")
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queue_states, "EVERY_S", 6 * 3_600)
    monkeypatch.setattr(queue_states, "DAYS", 4)
    monkeypatch.setattr(queue_states, "LATER", 4)
    monkeypatch.setattr(queue_states, "FEWEST", 5)
    return tmp_path


def kept(lake: Lake, date: Cutoff, ended_by_s: float = np.inf) -> tuple[pd.DataFrame, dict[str, object]]:
    entry = load_catalogue()["site"]
    clean = cleaned_for(entry.described, read_trace("site"), entry.missing_request)
    ended = clean.jobs["submit_s"] + clean.jobs["wait_s"].astype("int64") + clean.jobs["runtime_s"] <= ended_by_s
    clean = replace(clean, jobs=clean.jobs[ended].reset_index(drop=True))
    lake.write_clean(clean)
    assert keep_states(lake, clean, keep_features(lake, clean), date, lambda done, of: None) == ""
    return lake.read_for(clean, "queue_states")


@pytest.mark.thorough
def test_a_model_learns_with_the_sites_scheduler_and_answers_when(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, date = Lake(place / "home/lake"), Cutoff("runtime-site", UNTIL_S, UNTIL_S)
    table, marks = kept(lake, date)
    clean = lake.read_clean("site")
    assert (marks["ahead"], marks["asked_anew"]) == (SLURM, len(table))
    assert set(table["job_id"]) <= set(clean.jobs["job_id"])
    assert clean.jobs["job_id"].min() == 1001, "canonical jobs have the raw numbers, not those of tasks"
    start = pd.Series(read_features(lake, clean).start_s, clean.jobs["job_id"])[table["job_id"]].to_numpy()
    assert (start >= table["at_s"]).all(), "each waits when it is asked about"
    scenarios, free = table[list(STARTS)].to_numpy(), table["spare"].to_numpy() >= 0
    waits = start - table["at_s"].to_numpy()
    assert np.corrcoef(np.log1p(np.median(scenarios, axis=1)), np.log1p(waits))[0, 1] > 0.7
    assert free.any()
    assert not free.all()
    asked = read_states(lake, clean, read_features(lake, clean))
    store = tracking()
    result = keep_start_model(Work(lake, store, "runtime-site"), clean, asked, date)
    point_champions(lake, "site", store)
    model = load(store, "start-site")
    assert (model.ahead, result.champion != "") == (SLURM, True)
    now_s = int(clean.jobs["submit_s"].iloc[-1]) + (clean.origin_unix_s or 0)
    new = f"7_9001|PENDING|user1|batch|16|1:00:00|{local(now_s)}|N/A|all|normal|node=1||||"
    (place / "squeue.txt").write_text(f"{HEAD_OF_QUEUE}|{'|'.join(name.upper() for name in OF_SLURM.values())}\n{new}\n")
    given = {"trace": "site", "queue": place / "squeue.txt", "now": local(now_s)}
    answer = answered(WhenSettings(**given))
    ran = "64 simulations of the next 24 h with the Slurm of cluster 'site'"
    assert answer.by == f"start-site version {result.champion} from {ran}"
    assert answer.records[0]["chance_1h"] > 0.5, "the machine is empty"
    assert answer.records[0]["last_30_days"]["answers"] > 0
    monkeypatch.setattr("models.registry.start_registration.load", lambda *given: replace(model, ahead=EASY))
    assert answered(WhenSettings(**given)).by == ran
    with pytest.raises(InputError, match="was not trained with simulations of the site's Slurm"):
        answered(WhenSettings(**given, model="start-site@champion"))


@pytest.mark.thorough
@pytest.mark.slow
def test_a_night_asks_what_is_new_and_sees_nothing_of_later(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_states, "EVERY_S", 12 * 3_600)
    tables = []
    for lake, days in ((Lake(place / "nights"), (14, 15)), (Lake(place / "anew"), (15,))):
        for day in days:
            night = f"2023-12-{day}"
            at_s = pd.Timestamp(night).timestamp() - ORIGIN_S
            tables.append(kept(lake, Cutoff("runtime-site", int(at_s), 0, night=night), at_s))
    (_, first), (table, second), (whole, anew) = tables
    assert 0 < int(str(second["asked_anew"])) < 0.4 * int(str(first["asked_anew"])), "what was asked before is kept"
    assert anew["asked_anew"] == len(whole)
    pd.testing.assert_frame_equal(table, whole)


@pytest.mark.slow
def test_kept_snapshots_add_what_waited_and_never_started(place: Path) -> None:
    of_trace = f'place = "site.txt"\ntimezone = "UTC"\nprocs = {PROCS}\nqueues = "kept"\n'
    (place / "queuecast.toml").write_text(f"[traces.site]\n{of_trace}")
    (place / "kept").mkdir()
    jobs = waited().jobs
    asked_s = jobs["submit_s"] + 1_700_000_300
    waits = jobs.index[(jobs["wait_s"] > 300) & (jobs["submit_s"] > 26.2 * DAY_S) & (jobs["submit_s"] < UNTIL_S)]
    waits = asked_s[waits].groupby(asked_s // (6 * 3_600)).idxmin().iloc[:3]  # one in a slot
    for row in waits:
        at_s = int(asked_s[row])
        lines = [
            f"{number}|PENDING|user0|batch|1|1:00:00|{local(at_s - 60)}|N/A"
            for number in (int(jobs["job_id"][row]) + 1000, 1, 2, 3)
        ]
        lines = [f"{line}|{priority}" for line, priority in zip(lines, (50, 70, 60, 40), strict=True)]
        named = place / f"kept/{pd.Timestamp(at_s, unit='s'):%Y%m%dT%H%M%SZ}.txt"
        named.write_text("\n".join([f"{HEAD_OF_QUEUE}|PRIORITY", *lines]) + "\n")
    table, marks = kept(Lake(place / "home/lake"), Cutoff("runtime-site", UNTIL_S, UNTIL_S))
    asked = table.set_index(["job_id", "at_s"])
    rows = asked.loc[[(int(jobs["job_id"][row]) + 1000, int(asked_s[row]) - ORIGIN_S) for row in waits]]
    assert (marks["ahead"], rows["waiting"].tolist()) == (EASY, [3, 3, 3]), "three jobs wait that accounting does not hold"
    assert rows["ahead"].tolist() == [2, 2, 2], "two of them by the site's priority, though all were submitted at once"
    assert (table["at_s"].diff().dropna() >= 0).all()
    assert len(table) > 500, "beside the questions about single jobs"
