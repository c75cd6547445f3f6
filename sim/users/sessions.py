"""Sessions and batches of users, found in a trace by the rules of Zakay & Feitelson.

A user's jobs are taken in order of submission. The think time of a job is its submission minus the end of the job before it; more
than 20 minutes of it begin a session ("Preserving user behavior characteristics in trace-based simulation of parallel job
scheduling", MASCOTS 2014). Long jobs make such sessions unrealistically long, so "On identifying user session boundaries in
parallel workload logs" (JSSPP 2012) compares that rule (``last``) with think times since the last end of all earlier jobs
(``max``) and with times between submissions (``arrival``). Inside a session, a job that is submitted before the previous one has
ended does not wait for that end: it belongs to the same batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.deferred import pd
from sim.users.names import ARRIVAL, MAX, Users


class Batches(NamedTuple):
    """The batches of a trace, int64: by user, and for each user in order of submission.

    ``of_job`` [jobs] numbers them; the rest is [batches]. ``session`` and ``person`` number sessions and users; a job of an
    unknown user is a user, a session and a batch of its own. ``submit_s`` is the first submission, ``end_s`` the last end.
    ``think_s`` is the think time before the batch: negative if it overlaps with the batch before it, 0 for a user's first.
    """

    of_job: np.ndarray
    session: np.ndarray
    person: np.ndarray
    submit_s: np.ndarray
    end_s: np.ndarray
    think_s: np.ndarray


def batches(user: np.ndarray, submit_s: np.ndarray, end_s: np.ndarray, rule: Users) -> Batches:
    """Return the batches of jobs in order of submission; int64 [jobs], ``user`` -1 if unknown."""
    if len(user) == 0:
        return Batches(*[np.zeros(0, np.int64)] * 6)
    own = np.where(user < 0, user.max() + 1 + np.arange(len(user)), user)
    order = np.argsort(own, kind="stable")
    own, submit, end = own[order], submit_s[order], end_s[order]
    before = pd.Series(end).groupby(own).cummax().to_numpy() if rule.rule == MAX else end
    other = np.append(True, own[1:] != own[:-1])
    think = np.append(0, submit[1:] - before[:-1])
    away = np.append(0, np.diff(submit)) if rule.rule == ARRIVAL else think
    begins = other | (away > rule.session_s)
    first = begins | (think >= 0)
    number = np.cumsum(first) - 1
    of_job = np.empty_like(number)
    of_job[order] = number
    at = np.flatnonzero(first)
    session, person = np.cumsum(begins)[at] - 1, np.cumsum(other)[at] - 1
    return Batches(of_job, session, person, submit[at], np.maximum.reduceat(end, at), np.where(other, 0, think)[at])
