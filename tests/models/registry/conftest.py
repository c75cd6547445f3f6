"""Accounting that the registered forms of the learners are tested on."""

from __future__ import annotations

import pytest

from features.clock import DAY_S
from models.registry.accounting import Accounting, accounting
from tests.support.learning import ORIGIN_S, ZONE, people, workload


@pytest.fixture(scope="module")
def known() -> Accounting:
    jobs, start = workload(2500, weeks=5)
    return accounting(people(jobs), start, ORIGIN_S, ZONE)


@pytest.fixture(scope="module")
def at(known: Accounting) -> int:
    return known.until_s - 6 * DAY_S
