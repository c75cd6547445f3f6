"""Run every property test and comparison with an oracle on fresh examples, ten times as many as CI's, which are always the same.

The seed decides what hypothesis draws and which seeds random workloads have. ``python -m tests.campaigns.apart properties TIMES SEED
FOLDER TEST`` repeats a finding.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.campaigns.counts import Counts
from tests.support import fresh

ATTEMPTS = 10
"""Times as many examples and seeds as CI's."""


def campaign(attempts: int, seed: int, folder: Path, *tests: str) -> Counts:
    """Run ``tests``, by default all, that draw, on ``attempts`` times as many examples as CI's; count tests."""
    os.environ |= {fresh.SEED: str(seed), fresh.TIMES: str(attempts)}
    settings.load_profile("campaign")
    drawing = _Drawing(attempts, seed)
    pytest.main(
        [f"--hypothesis-seed={seed}", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}", *(tests or ("tests",))], [drawing]
    )
    return drawing.counts


class _Drawing:
    """A plugin of pytest: leave out what draws nothing, draw more, count what comes of it."""

    def __init__(self, times: int, seed: int) -> None:
        self.times, self.seed, self.counts = times, seed, Counts()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Function]) -> None:
        drawn = [item for item in items if _draws(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
        items[:] = drawn
        kept = "_hypothesis_internal_use_settings"
        for function in {item.function for item in drawn if is_hypothesis_test(item.function)}:
            given = getattr(function, kept)
            setattr(function, kept, settings(given, max_examples=self.times * given.max_examples))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            what = getattr(report.longrepr, "reprcrash", report.longrepr)
            self.counts.add("failed", f"{self.times} {self.seed} {report.nodeid}: {getattr(what, 'message', what)}")
        elif report.when == "call":
            self.counts.add(report.outcome)


def _draws(item: pytest.Function) -> bool:
    """Tell whether a test has examples of hypothesis or seeds of :func:`tests.support.fresh.seeds`."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    loops = "seeds" in item.function.__code__.co_names
    return is_hypothesis_test(item.function) or loops or given.get("seed", 0) >= fresh.FIRST
