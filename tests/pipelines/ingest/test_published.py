"""Tables of jobs that sites published, on samples made here after their schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import queuecast
from features.errors import InputError
from features.jobs.schema import Trace
from pipelines.ingest.read import read_trace

FUGAKU = {
    "jid": ["jid_7", "jid_8", "jid_9"],
    "usr": ["usr_1", "usr_1", "usr_2"],
    "jnam": ["jnam_3", "jnam_3", "jnam_4"],
    "cnumr": [96, 48, 48],
    "nnumr": [2, 1, 1],
    "nnuma": [2, 1, 1],
    "elpl": [3600.0, 60.0, 86400.0],
    "adt": ["2021-04-01 00:00:00", "2021-04-01 00:00:10", "2021-04-01 00:01:00"],
    "sdt": ["2021-04-01 00:00:05", "2021-04-01 00:00:10", "2021-04-01 01:00:00"],
    "edt": ["2021-04-01 00:30:05", "2021-04-01 00:01:00", "2021-04-01 02:00:00"],
    "exit state": ["completed", "failed", "completed"],
    "econ": [1.5, 2.5, 3.5],
}
PM100 = {
    "job_id": [11, 12, 13],
    "user_id": [5, 5, 6],
    "group_id": [25200] * 3,
    "partition": ["1", "1", "2"],
    "qos": ["0", "0", "1"],
    "num_cores_req": [128, 32, 4],
    "num_cores_alloc": [128, 32, 4],
    "num_nodes_req": [1, 1, 1],
    "num_nodes_alloc": [1, 1, 1],
    "num_gpus_req": [4, 1, 0],
    "submit_time": pd.to_datetime(["2020-05-04 10:00:00", "2020-05-04 10:00:30", "2020-05-04 10:01:00"], utc=True),
    "start_time": pd.to_datetime(["2020-05-04 10:00:10", "2020-05-04 10:00:30", "2020-05-04 11:01:00"], utc=True),
    "end_time": pd.to_datetime(["2020-05-04 10:10:10", "2020-05-04 11:00:30", "2020-05-04 11:02:00"], utc=True),
    "run_time": [600, 3600, 60],
    "time_limit": [60, 1440, 10],
    "job_state": ["COMPLETED", "TIMEOUT", "CANCELLED"],
    "power_consumption": [[1.0], [2.0], [3.0]],
}
SUPERCLOUD = """id_job,id_user,partition,cpus_req,nodes_alloc,state,timelimit,time_submit,time_start,time_end
41,7,xeon-g6,40,1,3,1440,1612137600,1612137700,1612141300
42,8,xeon-p8,48,1,4,60,1612137660,0,1612137900
43,8,xeon-p8,96,2,6,60,1612137720,1612137720,1612141330
"""
LASSEN = """allocation_id,primary_job_id,num_nodes,num_processors,num_gpus,hashed_user_id,hashed_user_group_id,begin_time,end_time,exit_status,\
job_submit_time,queue,time_limit
501,901,4,160,0,aa,gg,2018-11-04 00:00:30.250000,2018-11-04 01:00:30.250000,complete,2018-11-04 00:00:00,pbatch,7200
502,902,1,40,0,bb,gg,2018-11-05 09:00:00,2018-11-05 09:10:00,failed,2018-11-05 08:59:00,pdebug,600
"""
GPUS = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]
PHILLY = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1_14199",
        "attempts": [
            {"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00", "detail": GPUS[1:]},
            {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-07 03:12:00", "detail": GPUS},
        ],
        "submitted_time": "2017-10-07 01:11:40",
        "user": "ce2f4c",
    },
    {
        "status": "Killed",
        "vc": "ee9e8c",
        "jobid": "application_2_14199",
        "attempts": [],
        "submitted_time": "2017-10-07 01:11:50",
        "user": "ce2f4c",
    },
    {
        "status": "Failed",
        "vc": "ab",
        "jobid": "application_2_7",
        "attempts": [{"start_time": "2017-10-07 02:00:00", "end_time": "None", "detail": GPUS}],
        "submitted_time": "2017-10-07 02:00:00",
        "user": "u",
    },
]


def rows(trace: Trace, *names: str) -> list[list[object]]:
    return [[None if pd.isna(value) else value for value in trace.jobs[name].tolist()] for name in names]


def test_fugaku_counts_nodes_and_its_limits_are_seconds(tmp_path: Path) -> None:
    path = tmp_path / "21_04.parquet"
    pd.DataFrame(FUGAKU).to_parquet(path)
    trace = read_trace(path)
    assert rows(trace, "job_id", "procs", "requested_s") == [[7, 8, 9], [2, 1, 1], [3600, 60, 86400]]
    assert rows(trace, "submit_s", "wait_s", "runtime_s") == [[0, 10, 60], [5, 0, 3540], [1800, 50, 3600]]
    assert rows(trace, "status", "user") == [[1, 0, 1], ["usr_1", "usr_1", "usr_2"]]
    assert trace.origin_unix_s == pd.Timestamp("2021-04-01", tz="Asia/Tokyo").timestamp()
    assert trace.notes[0] == "Read as Fugaku F-DATA: a processor is a node, times are of Asia/Tokyo."
    assert "Columns that are not read: cnumr, econ." in trace.notes


def test_pm100_counts_cores_and_its_limits_are_minutes(tmp_path: Path) -> None:
    path = tmp_path / "job_table.parquet"
    pd.DataFrame(PM100).to_parquet(path)
    trace = read_trace(path)
    assert rows(trace, "procs", "requested_s", "runtime_s") == [[128, 32, 4], [3600, 86400, 600], [600, 3600, 60]]
    assert rows(trace, "gpus", "status", "wait_s") == [[4, 1, None], [1, 0, 5], [10, 0, 3600]]
    assert trace.origin_unix_s == pd.Timestamp("2020-05-04 10:00", tz="UTC").timestamp()
    assert trace.timezone == "Europe/Rome"
    clean = queuecast.read(path, procs=64)
    assert clean.jobs["job_id"].tolist() == [12, 13]
    older = pd.DataFrame(PM100).rename(columns=lambda name: name.replace("cores", "cpus"))
    older.to_parquet(path)
    assert rows(read_trace(path), "procs") == [[128, 32, 4]]


def test_supercloud_has_unix_seconds_and_numbered_states(tmp_path: Path) -> None:
    path = tmp_path / "slurm-log.csv"
    path.write_text(SUPERCLOUD)
    trace = read_trace(path)
    assert rows(trace, "job_id", "procs", "requested_s") == [[41, 42, 43], [40, 48, 96], [86400, 3600, 3600]]
    assert rows(trace, "wait_s", "runtime_s", "status") == [[100, None, 0], [3600, None, 3610], [1, 5, 0]]
    assert trace.origin_unix_s == 1612137600
    assert any("never started" in note and note.endswith(": 1.") for note in trace.notes)
    path.write_text(SUPERCLOUD.replace("1612137660", "soon"))
    with pytest.raises(InputError, match=r"slurm-log.csv:3: Submit 'soon' is not a time"):
        read_trace(path)
    path.write_text(SUPERCLOUD.replace(",6,60", ",99,60"))
    with pytest.raises(InputError, match=r"slurm-log.csv:4: State '99' is no state"):
        read_trace(path)


def test_lassen_counts_nodes_across_a_change_of_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "final_csm_allocation_history_hashed.csv"
    path.write_text(LASSEN)
    trace = read_trace(path)
    assert rows(trace, "job_id", "procs", "requested_s") == [[501, 502], [4, 1], [7200, 600]]
    assert rows(trace, "wait_s", "runtime_s", "status", "queue") == [[30, 60], [3600, 600], [1, 0], ["pbatch", "pdebug"]]
    assert rows(trace, "submit_s") == [[0, 33 * 3600 - 60 + 3600]]  # 2018-11-04 had 25 hours


def test_philly_counts_gpus_from_the_first_attempt_to_the_end_of_the_last(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(PHILLY))
    trace = read_trace(path)
    assert rows(trace, "job_id", "procs", "submit_s") == [[1, 2, 3], [3, None, 3], [0, 10, 2900]]
    assert rows(trace, "wait_s", "runtime_s", "status") == [[20, None, 0], [7200, None, None], [1, 5, 0]]
    assert "Jobs are numbered in the order of the file." in trace.notes
    assert len(queuecast.read(path, procs=8, missing_request="runtime").jobs) == 1
    for text in ("[1, 2]", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(InputError, match="is no table of jobs"):
            read_trace(path)
