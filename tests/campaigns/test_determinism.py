"""One trace under two hash seeds, one and two threads and workers."""

from __future__ import annotations

from pathlib import Path

from tests.campaigns import determinism


def test_results_are_the_same_under_any_hash_seed_threads_and_workers(tmp_path: Path) -> None:
    determinism.write_trace(tmp_path / "trace.swf", 1, weeks=2, jobs=110)
    first, second = (determinism.elsewhere(tmp_path, which) for which in (0, 1))
    assert first == second
    assert len(first) == 5
