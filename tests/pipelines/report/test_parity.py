"""The first line of parity: whether the replays are near enough to the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.report.parity import answer
from pipelines.studies.parity import Parity, measure, read_site_jobs
from sim.site.parity import too_far

pytestmark = pytest.mark.usefixtures("undrawn_pictures")
GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"


@pytest.fixture(scope="module")
def measured() -> Parity:
    return measure(*read_site_jobs(GOLDEN / "tiers-A.txt", GOLDEN / "tiers-A", "UTC"), 3, 0, lambda *_: None)


def test_parity_begins_with_a_verdict_and_the_figure_that_decides(measured: Parity) -> None:
    inside = measured.summary | {"low_s": 0.0, "high_s": 1e6, "decisions": 0.95}
    measured.summary.update(inside, far=too_far(inside))
    assert answer(measured)[0] == (
        "Near enough, go on with queuecast whatif: the recorded mean wait lies inside the range of replays, and 95.0% of the starts are "
        "decided as recorded (at least 90% must be)."
    )
    outside = inside | {"high_s": 1.0}
    measured.summary.update(outside, far=too_far(outside))
    assert answer(measured)[0].startswith("Too far to advise: the recorded mean wait, ")
    assert "on test clusters, which come with Queuecast's tests" in answer(measured)[1]
