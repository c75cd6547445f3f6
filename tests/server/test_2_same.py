"""A laptop and a server publish the same, of runs and of nights."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator

from tests.server.conftest import LESS
from tests.server.site import Site

SUBJECT = "runtime-same"
NIGHT = """
from pipelines.assets.partitions import trace_on
from pipelines.definitions import defs
from pipelines.storage.instance import instance
with instance() as running:
    job = defs.resolve_job_def("nightly")
    assert job.execute_in_process(partition_key=trace_on("same", "2023-12-08"), instance=running).success
"""


def different(page: str, other: str) -> Iterator[str]:
    """Yield the lines in which two pages differ."""
    lines = [text.replace("<", "\n<").splitlines() for text in (page, other)]
    yield from (line for line in difflib.unified_diff(*lines, n=0, lineterm="") if line[:3] not in ("---", "+++"))


def test_tables_and_pages_are_the_same_on_a_laptop(site: Site) -> None:
    accounting = site.root / "same.parquet"
    shutil.copyfile(site.root / "arriving.parquet", accounting)
    for what in ("run", "night"):
        seen = []
        for machine in (site.machine("desk"), site.laptop()):
            if what == "run":
                done = site.queuecast("run", "--trace", str(accounting), "--grows", *LESS, env=machine)
                assert done.returncode == 0, done.stderr
            else:
                site.python(NIGHT, env=machine)
            seen.append(site.published(SUBJECT, env=machine))
        server, laptop = seen
        assert server["tables"] == laptop["tables"]
        assert server["pages"].keys() == laptop["pages"].keys()
        for name, page in server["pages"].items():
            assert [*different(page, laptop["pages"][name])] == [], name
    assert "2023-12-08" in server["made_by"]
