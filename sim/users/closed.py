"""Which batches a batch waits for: the closed loop and the semi-open one.

A batch depends on the earlier batches of its user all of whose jobs had ended when it was submitted. Of these it waits for those
on which no other of them depends. When all of them have ended and the user has thought, its jobs follow with the recorded times
between them. The think time is that between the last of those ends and the batch's first submission. So if every job starts when
it is recorded to have started, every job is submitted at its recorded time. The papers leave some points open; here:

closed
    All batches wait so, within a session and across sessions. A batch that depends on none is submitted as recorded: a user's
    first, and batches submitted while all the user's earlier ones still ran.
semi-open
    Sessions begin as recorded, and the loop is closed within them: a batch waits only for batches of its own session. One that
    depends on none of these is submitted as recorded, or when the batches of earlier sessions it depends on have ended, if
    that is later. The name is that of Zakay & Feitelson, "Semi-open trace based simulation for reliable evaluation of job
    throughput and user productivity" (CloudCom 2015). Their loads differ by scheduler; these hardly do. The partly open systems of
    Schroeder, Wierman & Harchol-Balter (NSDI 2006) are nearer.

"Had ended before" is an order of intervals. So the batches that a batch waits for are neighbours by their ends, and those that
wait for a batch are neighbours by their submissions: no list of pairs is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jobs.dependencies import OPEN, Graph, spread
from sim.users.names import SEMI_OPEN, Users
from sim.users.sessions import Batches, batches


class _Links(NamedTuple):
    """What some batches wait for, and the places among them of those that wait for each batch.

    Of the waiting: how many batches they wait for, and the last of these ends. Of all batches: first and last place.
    """

    parents: np.ndarray
    last_end_s: np.ndarray
    first_child: np.ndarray
    last_child: np.ndarray


def graph(user: np.ndarray, submit_s: np.ndarray, end_s: np.ndarray, rule: Users) -> tuple[Graph, Batches]:
    """Return what jobs wait for under ``rule``, and their batches.

    Int64 [jobs] in order of submission; ``user`` is a code, -1 for unknown: such jobs wait for none.
    """
    batched = batches(user, submit_s, end_s, rule)
    every = np.arange(len(batched.session))
    offset = submit_s - batched.submit_s[batched.of_job]
    if rule.loop != SEMI_OPEN:
        links = _links(batched, batched.person, every)
        parents, children = links.parents, [(every, links)]
        think, late = batched.submit_s - links.last_end_s, np.zeros(len(every), bool)
    else:
        inner = _links(batched, batched.session, every)
        begins = np.flatnonzero(inner.parents == 0)
        across = _links(batched, batched.person, begins)
        parents, children = inner.parents.copy(), [(every, inner), (begins, across)]
        parents[begins] = across.parents
        late = np.zeros(len(every), bool)
        late[begins] = True
        think = np.where(late, 0, batched.submit_s - inner.last_end_s)
    after_s = np.where(parents[batched.of_job] > 0, think[batched.of_job] + offset, OPEN)
    child, first, last = children[0][0], children[0][1].first_child, children[0][1].last_child
    if len(children) > 1:
        child, first, last = _joined(children)
    return Graph(batched.of_job, after_s, late[batched.of_job], parents, child, first, last), batched


def _links(batched: Batches, group: np.ndarray, waiting: np.ndarray) -> _Links:
    """Return what the batches ``waiting`` wait for among those of their ``group``.

    Groups are numbered in the order of the batches.
    """
    if len(group) == 0:
        return _Links(*[group] * 4)
    begin = int(batched.submit_s.min())
    span = int(batched.end_s.max()) - begin + 2
    submit, end = (group * span + seconds - begin + 1 for seconds in (batched.submit_s, batched.end_s))  # group * span: before all
    by_end = np.argsort(end, kind="stable")
    ends, latest = end[by_end], np.maximum.accumulate(submit[by_end])
    floor = group[waiting] * span
    ended = np.searchsorted(ends, submit[waiting], "right")
    # the latest submission among batches ended by then: another one depends on those that ended before it
    bar = np.maximum(np.append(latest, 0)[ended - 1], floor)
    parents = ended - np.searchsorted(ends, bar, "right")
    last_end = np.append(ends, 0)[ended - 1] - floor + begin - 1
    first, last = np.searchsorted(submit[waiting], end, "left"), np.searchsorted(bar, end, "left")
    return _Links(parents, last_end, first, last)


def _joined(children: list[tuple[np.ndarray, _Links]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the children of each batch as one slice, from several kinds of links."""
    pairs = [(spread(links.first_child, links.last_child), which) for which, links in children]
    parent = np.concatenate([number for (number, _), _ in pairs])
    child = np.concatenate([which[place] for (_, place), which in pairs])
    order, every = np.argsort(parent, kind="stable"), np.arange(len(children[0][1].first_child))
    first, last = (np.searchsorted(parent[order], every, side) for side in ("left", "right"))
    return child[order], first, last
