"""What every test may use: where the shared reference material lies, and a skip that says so when it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
"""Real traces and reference schedules, beside the checkout; the product never reads it."""

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"reference material is not at {SHARED}")

# a slow machine is no failure, and compiled kernels make first examples slow
settings.register_profile("queuecast", deadline=None, derandomize=True)
settings.load_profile("queuecast")
