"""A laptop and a server publish the same."""

from __future__ import annotations

from tests.server.conftest import LESS, SUBJECT
from tests.server.site import Site


def test_tables_and_pages_are_the_same_on_a_laptop(site: Site) -> None:
    accounting = str(site.root / "arriving.parquet")
    there = site.queuecast("run", "--trace", accounting, *LESS)
    done = site.queuecast("run", "--trace", accounting, *LESS, env=site.laptop())
    assert (there.returncode, done.returncode) == (0, 0), there.stderr + done.stderr
    server, laptop = site.published(SUBJECT), site.published(SUBJECT, env=site.laptop())
    assert server["tables"] == laptop["tables"]
    assert server["pages"].keys() == laptop["pages"].keys()
    for name, page in server["pages"].items():
        assert page == laptop["pages"][name], name
