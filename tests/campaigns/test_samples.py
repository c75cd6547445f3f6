"""A few attempts of each campaign that runs apart: nothing is found, and what may come of an attempt does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.campaigns import bounds, determinism
from tests.campaigns.apart import apart
from tests.support.system_calls import available

QUICK = ("promotion", "campaign", "ingestion")
IN_THE_LAST_STEP = {"promotion: as before", "promotion: new, mended"}
watching = pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("campaign", "attempts", "least", "seed", "what", "variables", "outcomes"),
    [
        pytest.param("kills", 24, 20, 5, QUICK, {}, IN_THE_LAST_STEP, marks=watching),
        pytest.param("power_loss", 24, 20, 2, QUICK, {}, IN_THE_LAST_STEP, marks=watching),
        pytest.param("faults", 15, 12, 1, QUICK, {}, {"promotion: a line, as before"}, marks=watching),
        pytest.param("races", 2, 2, 0, ("ingest,doctor", "ingest,ingest"), {}, set(), marks=watching),
        ("bounds", 97, 97, 3, (), bounds.PLAIN, {"refused", "whole", "as the oracle"}),
    ],
)
def test_nothing_is_found(
    campaign: str,
    attempts: int,
    least: int,
    seed: int,
    what: tuple[str, ...],
    variables: Mapping[str, str],
    outcomes: set[str],
    tmp_path: Path,
) -> None:
    counts = apart(campaign, attempts, seed, tmp_path, *what, **variables)
    assert counts.findings == []
    assert counts.attempts >= least
    assert outcomes <= set(counts.outcomes)


def test_results_are_the_same_under_any_hash_seed_threads_and_workers(tmp_path: Path) -> None:
    determinism.write_trace(tmp_path / "trace.swf", 1, weeks=2, jobs=110)
    first, second = (determinism.elsewhere(tmp_path, which) for which in (0, 1))
    assert first == second
    assert len(first) == 5
