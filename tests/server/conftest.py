"""One site for all tests of this folder, in the order of the files; what remains of a failure is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.site import Site, removed

_SITE = pytest.StashKey[Site]()
LESS = ("--scheduler", "EASY", "--predictor", "requested", "--correction", "requested")
"""Options of a run with few policies."""
SUBJECT = "runtime-arriving"


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site with PostgreSQL, an object store and MLflow, and the accounting of 25 days."""
    root = Path(tempfile.mkdtemp(prefix="queuecast-server-", dir="/tmp"))  # not the tests' own place, which is its user's alone
    root.chmod(0o711)  # PostgreSQL is another user's process
    new_site = Site(root)
    request.config.stash[_SITE] = new_site
    try:
        new_site.start()
        with new_site.timed("write the accounting"):
            new_site.python(
                f"from pathlib import Path; from tests.support.scenes import accounting; accounting(Path({str(root)!r}), 25)"
            )
        yield new_site
    finally:
        new_site.stop()
    if request.session.testsfailed:
        print(f"\nlogs and databases are kept in {root}")
    else:
        removed(root)


@pytest.fixture(scope="session")
def ran(site: Site) -> Site:
    """The site, after two runs: the second registers nothing new, and every such run makes its tables again."""
    with site.timed("two runs to compare with"):
        for _ in range(2):
            done = site.queuecast(*run_of(site))
            assert done.returncode == 0, done.stderr
    assert "nothing new, nothing registered" in done.stdout
    return site


def run_of(site: Site) -> list[str]:
    """Return the arguments of a small run."""
    return ["run", "--trace", str(site.root / "arriving.parquet"), *LESS]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note how long each test took."""
    site = getattr(item, "funcargs", {}).get("site")
    if isinstance(site, Site):
        with site.timed(item.name.removeprefix("test_").replace("_", " ")):
            yield
    else:
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what took how long."""
    site = config.stash.get(_SITE, None)
    if site is None:
        return
    terminalreporter.section("times")
    for what, seconds in site.times:
        terminalreporter.line(f"{seconds:8.1f} s  {what}")
