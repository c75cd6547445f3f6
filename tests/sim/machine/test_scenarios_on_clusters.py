"""``Harm`` on machines of clusters: the oracle's starts, and on one cluster of one node those of the pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.schedulers.harm import Harm
from tests.oracle.clusters import Ask, Node, Site
from tests.oracle.decisions import Whim
from tests.oracle.harm import starts
from tests.sim.kernel.test_harm import Foggy, named_by, policies, rules
from tests.support.machines import KINDS, crowded


def wide_site(rng: np.random.Generator) -> Site:
    """Draw up to two clusters of many equal nodes, without limits."""
    return Site([[Node((4, 8))] * int(rng.integers(8, 17)) for _ in range(rng.integers(1, 3))], [[9] * 2 * KINDS] * 2)


def wide_ask(rng: np.random.Generator, site: Site) -> Ask:
    """Draw what a job asks for that may hold many nodes, alone or beside others; few count for a limit."""
    chunks, each = int(rng.choice([1, 2, 4, 6, 8])), (int(rng.choice([1, 2, 3, 4])), int(rng.choice([0, 1, 2])))
    weights = {0: 1} if rng.random() < 0.1 else {}
    clusters = frozenset(range(len(site.clusters)))
    return Ask(chunks, each, bool(rng.random() < 0.7), bool(rng.random() < 0.2), clusters=clusters, weights=weights)


@pytest.mark.slow
@settings(max_examples=10)
@given(
    st.integers(0, 10**9),
    rules,
    policies,
    st.sampled_from([Foggy, None, "requested", "clairvoyant"]),
    st.booleans(),
    st.none() | st.integers(0, 99),
)
@example(
    4194916,
    Harm(1, width_credit=0.0, urgency=0.0, order_urgency=0.0, short=0.0, short_level=0.5),
    {"semantics": "per-event", "starvation_s": 0},
    None,
    True,
    0,
)
def test_starts_are_the_oracles(seed: int, rule: Harm, policy: dict, source: Any, wide: bool, whim: int | None) -> None:
    rng = np.random.default_rng(seed)
    load, on, machine = crowded(rng, 30, wide_site, wide_ask) if wide else crowded(rng, 30)
    kernel, oracle = (Foggy(), Foggy()) if source is Foggy else (source, source)
    heard, oracle_whim = (None, None) if whim is None else (Whim(whim), Whim(whim))
    name = named_by(rule) if whim is None else f"{named_by(rule)}+RUSH(skips=3)"
    started = load.schedule(name, kernel, machine=machine, start_decision=heard, **policy).jobs["start_s"].tolist()
    deciding = {} if whim is None else {"decision": oracle_whim, "skips": 3}
    assert started == starts(load, rule, oracle, on=on, **deciding, **policy)
    assert heard is None or oracle_whim is None or heard.answers == oracle_whim.answers
