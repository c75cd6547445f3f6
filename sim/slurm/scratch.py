"""Room for what a scheduling pass notes for itself."""

from __future__ import annotations

import numpy as np

from sim.slurm.state import NONE, Ask, CycleScratch, Hardware, Plans, Rules

_OF_NODES = ("room", "chosen", "take", "first", "last", "total", "size", "cpus", "memory", "gpus", "able", "sooner", "clear")


def scratch_of(rules: Rules, hardware: Hardware, ask: Ask, groups: int) -> tuple[CycleScratch, Plans]:
    """Return room for what a pass notes for itself, allocated once."""
    count, nodes, partitions = len(ask.limit), len(hardware.cpus), len(hardware.tier)
    words = hardware.member.shape[1]
    intervals = 2 * min(rules.bf_max_job_test, len(ask.job) * max(rules.bf_max_job_array_resv, 1)) + 4
    lengths = {
        **dict.fromkeys(_OF_NODES, nodes),
        **dict.fromkeys(("mask", "usable", "counted", "idle", "coming"), words),
        **dict.fromkeys(("candidates", "shared"), count),
        **{"freed": count + 1, "merged": len(ask.job), "tested": int(ask.user.max(initial=-1)) + 1},
    }
    marks = {"failed": partitions, **dict.fromkeys(("planned", "plans", "block"), groups)}
    room = CycleScratch(
        **{name: np.zeros(length, np.int64) for name, length in lengths.items()},
        **{name: np.full(length, NONE) for name, length in marks.items()},
        futile=np.zeros((128, 4), np.int64),
        weight=2 * hardware.weight,
    )
    spans, sets = np.zeros((4, intervals), np.int64), np.zeros((2, intervals, words), np.int64)
    return room, Plans(spans[0], spans[1], spans[2], spans[3], sets[0], sets[1], np.zeros(words, np.int64))
