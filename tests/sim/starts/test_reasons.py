"""Why a job waits: by Slurm's word where there is one, else by limits, jobs ahead and free processors."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines.readers.queue_file import asked_of
from pipelines.report.site import sentence_of_cause, sentences_of
from sim.site.reasons import used_limits, without_limit
from sim.slurm.site import Association, Limits, Partition, Qos, Site
from sim.starts.reasons import CLASSES, class_of, reasons


def queue(*jobs: dict[str, object]) -> pd.DataFrame:
    usual = {"runs": False, "user": "u", "queue": "batch", "procs": 4, "requested_s": 3600, "reason": "", "start_unix_s": None}
    return pd.DataFrame([usual | {"submit_unix_s": 1000 + number} | job for number, job in enumerate(jobs)])


RUNNING = {"job_id": "1", "runs": True, "start_unix_s": 1000, "procs": 6, "requested_s": 2000}


WORDS = {
    "priority": ["Priority"],
    "resources": ["Resources"],
    "limit": ["QOSMaxJobsPerUserLimit", "AssocGrpCPUMinutesLimit", "MaxNodesPerUser", "MaxJobsPerAccount", "JobArrayTaskLimit"],
    "request": [
        "QOSMaxWallDurationPerJobLimit",
        "AssocMaxCpuMinutesPerJobLimit",
        "MaxMemPerLimit",
        "QOSMinGRES",
        "PartitionTimeLimit",
    ],
    "refused": ["QOSNotAllowed", "InvalidAccount", "ReservationDeleted"],
    "licenses": ["Licenses"],
    "dependency": ["Dependency"],
    "never": ["DependencyNeverSatisfied"],
    "begin time": ["BeginTime"],
    "held": ["JobHeldUser", "JobHoldMaxRequeue", "launch_failure_limit_exceeded_requeued_held", "job requeued in held state"],
    "reservation": ["Reservation"],
    "node": ["ReqNodeNotAvail, UnavailableNodes:n1", "NodeDown"],
    "planned": ["ReqNodeNotAvail, May be reserved for other job"],
    "maintenance": ["ReqNodeNotAvail, Reserved for maintenance"],
    "unavailable": [
        "ReqNodeNotAvail",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    ],
    "partition": ["PartitionDown"],
    "other": ["BurstBufferStageIn"],
    "": ["None", ""],
}
"""Words of Slurm by their class; the last say nothing."""


@pytest.mark.parametrize(("expected", "words"), WORDS.items())
def test_words_of_slurm_have_their_classes(expected: str, words: list[str]) -> None:
    assert {class_of(word) for word in words} == {expected}
    assert not expected or expected in CLASSES


def test_no_node_is_called_down_where_slurm_keeps_nodes_for_another_job() -> None:
    planned = queue({"job_id": "2", "reason": "ReqNodeNotAvail, May be reserved for other job"})
    (sentence,) = sentences_of(vars(reasons(planned, ["2"], 10, 1500)[0]), 4)
    assert "its nodes are reserved for another job that is planned" in sentence
    assert "drained" not in sentence


def test_without_a_word_the_queue_says_why() -> None:
    waiting = queue(RUNNING, {"job_id": "2", "procs": 8}, {"job_id": "3", "procs": 2, "queue": "long"}, {"job_id": "4", "procs": 2})
    first, second, third = reasons(waiting, ["2", "3", "4"], 10, 1500)
    assert (first.why, first.ahead, first.free, first.first, first.first_s) == ("resources", 0, 4, ("1",), 1500)
    assert (second.why, second.ahead, second.ahead_hours, second.ahead_in_queue) == ("priority", 1, 8.0, 0)
    assert (third.why, third.ahead, third.ahead_hours, third.ahead_in_queue) == ("priority", 2, 10.0, 1)
    assert reasons(queue({"job_id": "9"}), ["9"], 10, 1500)[0].why == "next"


def test_priority_decides_who_is_ahead_where_all_have_one_and_held_jobs_are_ahead_of_none() -> None:
    waiting = queue(
        {"job_id": "1", "priority": 5.0},
        {"job_id": "2", "priority": 9.0},
        {"job_id": "3", "priority": 7.0},
        {"job_id": "4", "priority": 99.0, "reason": "JobHeldAdmin"},
    )
    assert [each.ahead for each in reasons(waiting, ["1", "2", "3"], 100, 1500)] == [2, 0, 1]
    waiting.loc[2, "priority"] = None
    assert [each.ahead for each in reasons(waiting, ["1", "2", "3"], 100, 1500)] == [0, 1, 2]


def test_a_limit_that_running_jobs_use_up_is_named_with_what_is_used() -> None:
    site = Site(
        name="s",
        nodes=(),
        partitions={"batch": Partition("batch", ())},
        qos={"normal": Qos("normal", limits=Limits(user={"cpu": 8}))},
        associations=(Association("root"), Association("a", parent="root"), Association("a", "u", "a")),
        settings={"accountingstorageenforce": "limits"},
    )
    waiting = queue({**RUNNING, "nodes": ""}, {"job_id": "2", "nodes": ""}, {"job_id": "3", "user": "v", "nodes": ""})
    texts = dict.fromkeys(("account", "qos", "tres", "features", "after"), "")
    asked = asked_of(waiting.assign(**texts, expected_unix_s=None).assign(account="a"), site)
    used = used_limits(site, asked, waiting["runs"].to_numpy(bool), [1, 2])
    assert [each.text for each in used] == ["QOS normal, user u, cpu: 6 of 8 used, it asks for 4", ""]
    assert without_limit(site, used[0].key).qos["normal"].limits == Limits()


def test_sentences_say_what_a_user_needs() -> None:
    waiting = queue(RUNNING, {"job_id": "2", "procs": 8, "reason": "Resources"}, {"job_id": "3"})
    first, second = (vars(each) for each in reasons(waiting, ["2", "3"], 10, 1500))
    assert sentences_of(first, 8) == [
        "it waits because too few processors, or other resources, are free (Slurm says Resources)",
        "it asks for 8 processors and 4 are free: enough are once 1 ends, by the limits in 25.0 min at the latest",
    ]
    assert sentences_of(second, 4) == [
        "it waits because jobs ahead of it come first",
        "1 job is ahead of it (1 in its own queue), with requests for 8 processor-hours",
    ]
    cause = {"what": "jobs that came since and wait", "count": 3, "seconds": 600}
    assert sentence_of_cause(cause) == "3 jobs that came since and wait make it start 10.0 min later on average"
