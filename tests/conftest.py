"""Shared parts of the tests: reference material, markers, temporary files.

Tests are skipped where the material is absent. One line at the end counts them; in CI, where the material is there, none may be
skipped.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

import tests.support.fresh  # noqa: F401  hypothesis goes by its profiles

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

BEGUN_WITH = frozenset(os.environ)
"""Variables that were set when the tests began."""
SHARED = Path(__file__).resolve().parents[1].parent / "shared"
"""Real traces and reference schedules, beside the checkout; the product never reads it."""
WANTING = "reference material is not at"
"""Begins the reason of every skip for want of it."""
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
"""A file system in memory, and how many free bytes make it the place of temporary files: most of a fresh store's time goes into syncing a disk."""
SLOW = (
    "end_to_end",
    "benchmarks",
    "models/variability/test_evaluation",
    *(f"models/registry/test_{name}" for name in ("candidates", "packed_model", "packing", "registration")),
    "pipelines/cli/test_nights_cli",
    "pipelines/lake/test_moved_home",
    "pipelines/readers/test_simulated_site",
    "pipelines/readers/slurm/test_jobs",
    "pipelines/report/test_parity",
    "pipelines/report/test_report",
    *(f"pipelines/studies/test_{name}" for name in ("doctor", "variability", "what_if", "when")),
    *(f"pipelines/training/test_{name}" for name in ("judge", "night", "policy", "simulate", "systems", "train")),
    "sim/slurm/test_recorded",
)
"""Folders and modules all of whose tests are slow, most for a fixture's sake."""


def needs(path: Path) -> pytest.MarkDecorator:
    """Skip a test, saying so, where reference material is absent."""
    return pytest.mark.skipif(not path.exists(), reason=f"{WANTING} {path}")


needs_shared = needs(SHARED)

# workers share the cores: threads of OpenMP and BLAS would mostly spin and wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["QUEUECAST_NIGHTS_SINCE"] = "2023-11-01"  # before any definitions are loaded: the days of the traces in tests
os.environ.pop("COLUMNS", None)  # the terminal of this run; tables of commands are as wide as they need


def pytest_configure(config: pytest.Config) -> None:
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        if "TMPDIR" not in os.environ:  # what tests that kill commands leave there goes with it
            folder = TemporaryDirectory(prefix="queuecast-", dir=MEMORY)
            atexit.register(folder.cleanup)
            os.environ["TMPDIR"] = tempfile.tempdir = folder.name


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Give each test the environment that the session began with, as to MLflow, and take back what it changes.

    Commands that run in this process set variables for their own, and so do fixtures of a module that open a registry.
    """
    with patch.dict(os.environ):
        for name in [each for each in os.environ if each.startswith("MLFLOW_") and each not in BEGUN_WITH]:
            del os.environ[name]
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need the reference material, are end to end, or are slow."""
    here = Path(__file__).parent
    for item in items:
        if any(mark.kwargs.get("reason", "").startswith(WANTING) for mark in item.iter_markers("skipif")):
            item.add_marker("shared")
        module = item.path.relative_to(here)
        if module.parts[0] == "end_to_end":
            item.add_marker("end_to_end")
        if module.as_posix().startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracking]:
    """Open a registry of models of the module's own."""
    import mlflow

    from models.registry.tracking import connect

    place, before = tmp_path_factory.mktemp("mlflow"), mlflow.get_tracking_uri()
    yield connect(f"sqlite:///{place}/mlflow.db", str(place / "artifacts"), "tests", site=False)
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def undrawn_pictures() -> Iterator[None]:
    """Draw no pictures: for modules whose nights are those of others, but for what goes wrong."""
    from tests.support.pictures import undrawn

    with undrawn():
        yield


@pytest.fixture(scope="module")
def quick_methods() -> Iterator[None]:
    """Train no quantiles, which take longest: for modules whose claims are the same of the other methods."""
    from models.packed.methods import Quantile
    from models.registry.candidates import TRAINERS

    with patch.dict(TRAINERS):
        del TRAINERS[Quantile.name]
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while modules are imported, of which there is none: its passes take a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave what is imported by now out of the collector's passes: it stays, and each pass over it is long."""
    if "models.registry.tracking" in sys.modules:
        from tests.support.hastening import hasten_mlflow

        _copy_fresh_stores()
        hasten_mlflow()
    if "models.starts.model" in sys.modules:
        from models.starts import model
        from models.starts.model import Growth

        model.grow = partial(
            model.grow, growth=Growth(trees=30)
        )  # of a run's and a night's; tests of what they learn grow all of them
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _copy_fresh_stores() -> None:
    """Copy MLflow's empty store wherever one is to be made: its migrations take most of a second each time."""
    from models.registry import tracking

    real, folder = tracking._initialise, TemporaryDirectory(prefix="queuecast-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
    atexit.register(folder.cleanup)
    empty = Path(folder.name) / "mlflow.db"

    @wraps(real)
    def initialise(database: Path) -> None:
        real(empty)
        if not database.exists():
            shutil.copyfile(empty, database)
        real(database)

    tracking._initialise = initialise


def _wanting(reporter: pytest.TerminalReporter) -> int:
    """How many tests were skipped for want of reference material."""
    reasons = (report.longrepr[2] for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple))
    return sum(WANTING in reason for reason in reasons)


def _refused() -> bool:
    """May no test be skipped for want of material? In CI, where it is there."""
    return os.environ.get("CI", "").lower() in ("true", "1") and SHARED.is_dir()


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")  # none on the workers of pytest-xdist
    if reporter is not None and _refused() and _wanting(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if count := _wanting(terminalreporter):
        line = f"{count} tests skipped: {WANTING} {SHARED}"
        if _refused():
            line = f"{count} tests skipped for want of files in {SHARED}, which is there: in CI that is a failure"
        terminalreporter.write_line(line, yellow=True)
