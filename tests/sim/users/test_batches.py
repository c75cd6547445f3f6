"""Batches and what they wait for: as plain Python finds them on any jobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.cleaning import clean
from features.jobs.dependencies import OPEN, Graph
from pipelines.readers.read import read_trace
from sim.simulation import user_graph
from sim.users.closed import Facts, facts_of, graph, users
from tests.conftest import SHARED, needs_shared
from tests.oracle.batches import batches as plain_batches
from tests.oracle.batches import waits
from tests.oracle.scheduler import Waits


def waiting(links: Graph) -> list[tuple[list[int], int] | None]:
    """What each job waits for: rows of jobs, and seconds after their last end."""
    parents: list[list[int]] = [[] for _ in links.parents]
    for batch, (first, last) in enumerate(zip(links.first_child, links.last_child, strict=True)):
        for child in links.child[first:last]:
            parents[child] += np.flatnonzero(links.batch == batch).tolist()
    return [
        None if after == OPEN else (sorted(parents[batch]), after)
        for batch, after in zip(links.batch.tolist(), links.after_s.tolist(), strict=True)
    ]


any_jobs = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, -1]), st.integers(0, 6), st.integers(1, 40)),
    min_size=1,
    max_size=40,
)
"""User, seconds since the submission before, and from submission to end."""


def counted(by_job: list[Waits | None], user: list, submit: list[int], end: list[int]) -> Facts:
    """The facts as plain Python counts them."""
    jobs = {name: [job for job, other in enumerate(user) if other == name] for name in user if name is not None}
    every = {name: plain_batches(submit, end, mine) for name, mine in jobs.items()}
    of_job = {job: (name, place) for name, mine in every.items() for place, batch in enumerate(mine) for job in batch}
    parents = [0 if each is None else len({of_job[job] for job in each.jobs}) for each in by_job]
    return Facts(
        users=len(jobs),
        batches=sum(map(len, every.values())),
        jobs=len(user),
        unnamed=user.count(None),
        as_recorded=by_job.count(None),
        of_several=sum(number > 1 for number in parents),
    )


@given(any_jobs)
def test_graphs_are_those_of_plain_python(jobs: list[tuple[int, int, int]]) -> None:
    user, gaps, response = (np.array(column) for column in zip(*jobs, strict=True))
    submit = 1000 + np.cumsum(gaps)
    end = submit + response
    links, batched = graph(user, submit, end)
    names = [None if code < 0 else code for code in user.tolist()]
    expected = waits(names, submit.tolist(), end.tolist())
    assert waiting(links) == [None if each is None else (sorted(each.jobs), each.think) for each in expected]
    assert facts_of(links, batched, names.count(None)) == counted(expected, names, submit.tolist(), end.tolist())
    assert all(len(each[0]) > 0 for each in waiting(links) if each is not None)


def recorded_again(links: Graph, submit: np.ndarray, end: np.ndarray) -> list[int]:
    """Submissions in the closed loop where jobs end as recorded, batch by batch."""
    ended = [0] * len(links.parents)
    for batch, at in zip(links.batch.tolist(), end.tolist(), strict=True):
        ended[batch] = max(ended[batch], at)
    released, left = [0] * len(links.parents), links.parents.tolist()
    for batch, (first, last) in enumerate(zip(links.first_child, links.last_child, strict=True)):
        for child in links.child[first:last].tolist():
            released[child], left[child] = max(released[child], ended[batch]), left[child] - 1
    assert not any(left)
    rows = zip(links.batch.tolist(), links.after_s.tolist(), submit.tolist(), strict=True)
    return [at if after == OPEN else released[batch] + after for batch, after, at in rows]


@needs_shared
def test_jobs_that_end_as_recorded_are_submitted_as_recorded_on_all_of_kth_sp2() -> None:
    jobs = clean(read_trace(str(SHARED / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"))).jobs
    submit = jobs["submit_s"].to_numpy(np.int64)
    end = submit + jobs["wait_s"].to_numpy(np.int64) + jobs["runtime_s"].to_numpy(np.int64)
    links, _ = user_graph(jobs, users("closed"))
    assert (links.after_s == OPEN).mean() < 0.02
    assert recorded_again(links, submit, end) == submit.tolist()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("shut", "known: open, closed"),
        ("open(session=3)", "takes no options, because submissions are as recorded"),
        ("closed(session=1200)", "unknown option 'session'; known: ends"),
    ],
)
def test_unknown_users_are_refused_by_name(name: str, complaint: str) -> None:
    with pytest.raises(InputError, match="users ") as caught:
        users(name)
    assert complaint in str(caught.value)
