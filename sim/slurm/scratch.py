"""Room for what a scheduling pass notes for itself."""

from __future__ import annotations

import numpy as np

from sim.slurm.state import NONE, Ask, CycleScratch, Hardware, Plans, Rules


def scratch_of(rules: Rules, hardware: Hardware, ask: Ask, associations: int, groups: int) -> tuple[CycleScratch, Plans]:
    """Return room for what a pass notes for itself, allocated once."""
    count, nodes, partitions = len(ask.limit), len(hardware.cpus), len(hardware.tier)
    words, users = hardware.member.shape[1], int(ask.user.max(initial=-1)) + 1
    counters = 2 * partitions + associations + 1 + users * (partitions + 1)
    intervals = 2 * min(rules.bf_max_job_test, len(ask.job) * max(rules.bf_max_job_array_resv, 1)) + 4
    network = np.zeros((3, len(hardware.switch_level)), np.int64)
    counts, masks, marks = np.zeros((13, nodes), np.int64), np.zeros((6, words), np.int64), np.full((3, groups), NONE)
    room = CycleScratch(
        room=counts[0],
        chosen=counts[1],
        take=counts[2],
        first=counts[3],
        last=counts[4],
        cpus=counts[5],
        memory=counts[6],
        gpus=counts[7],
        clear=counts[8],
        futile=np.zeros((128, 4), np.int64),
        weight=2 * hardware.weight,
        mask=masks[0],
        usable=masks[1],
        counted=masks[2],
        idle=masks[4],
        coming=masks[5],
        able=counts[12],
        sooner=counts[9],
        total=counts[10],
        size=counts[11],
        rejected=marks[0],
        planned=marks[1],
        plans=marks[2],
        failed=np.full(partitions, NONE),
        tested=np.full(counters, NONE),
        submitted=np.zeros(counters, np.int64),
        foreseen=np.full(count, NONE),
        left=np.zeros(5, np.int64),
        required=network[0],
        distance=network[1],
        joined=network[2],
        candidates=np.zeros(count, np.int64),
        shared=np.zeros(count, np.int64),
        merged=np.zeros(len(ask.job), np.int64),
    )
    spans, sets = np.zeros((4, intervals), np.int64), np.zeros((2, intervals, words), np.int64)
    return room, Plans(spans[0], spans[1], spans[2], spans[3], sets[0], sets[1], masks[3])
