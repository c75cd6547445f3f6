"""One site for all tests of this folder, in the order of the files; what remains of a failure is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.site import Site, removed

LESS = ("--scheduler", "EASY", "--predictor", "requested", "--correction", "requested")
"""Options of a run with few policies."""
SUBJECT = "runtime-arriving"


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site with PostgreSQL, an object store and MLflow, and the accounting of 25 days."""
    root = Path(tempfile.mkdtemp(prefix="queuecast-server-", dir="/tmp"))  # not the tests' own place, which is its user's alone
    root.chmod(0o711)  # PostgreSQL is another user's process
    new_site = Site(root)
    try:
        new_site.start()
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
    for _ in range(2):
        done = site.queuecast(*run_of(site))
        assert done.returncode == 0, done.stderr
    assert "nothing new, nothing registered" in done.stdout
    return site


def run_of(site: Site) -> list[str]:
    """Return the arguments of a small run."""
    return ["run", "--trace", str(site.root / "arriving.parquet"), *LESS]
