"""Text is read in blocks, which make no difference; what may never end is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from pipelines.readers import delimited as accounting
from pipelines.readers import swf, text
from pipelines.readers.control_runs import read_types
from pipelines.readers.ldms.files import scan
from pipelines.readers.read import read_trace
from pipelines.readers.slurm.sacct import parse_sacct
from pipelines.readers.swf import parse_swf, read_swf
from pipelines.readers.text import Source, load
from tests.pipelines.readers.test_swf import LINE


def readings(path: Path):
    return (
        lambda: read_swf(path),
        lambda: parse_sacct(load(path), "UTC"),
        lambda: read_types(path),
        lambda: scan(path, {}),
    )


def test_devices_and_pipes_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        for reading in (*readings(path), lambda path=path: read_trace(path)):
            with pytest.raises(InputError, match=rf"^{path}: is a device or a pipe, not a file"):
                reading()


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
PIECES = st.lists(
    st.tuples(st.sampled_from([LINE, f"{LINE} 5 6", "; Note: x", ";", "", f"{LINE} ; x"]), ENDS), min_size=6, max_size=20
)


@pytest.mark.slow
@settings(max_examples=10)
@given(pieces=PIECES, block=st.integers(1, 200))
def test_blocks_make_no_difference_to_swf(pieces: list[tuple[str, str]], block: int) -> None:
    content = ("; Version: 2\n" + "".join(line + end for line, end in pieces) + LINE).encode()
    with pytest.MonkeyPatch.context() as patch:
        whole = parse_swf(Source("a.swf", content))
        patch.setattr(text, "BLOCK", block)
        cut = parse_swf(Source("a.swf", content))
    assert cut.notes == whole.notes
    assert cut.header == whole.header
    pd.testing.assert_frame_equal(cut.jobs, whole.jobs)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_error_in_a_later_block_has_its_line_whatever_ends_the_lines(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(text, "BLOCK", 100)
    with pytest.raises(InputError, match=r"^a.swf:42: field 2"):
        swf.parse_swf(Source("a.swf", end.join(["; x", "", *[LINE] * 39, f"1 x{LINE[3:]}", LINE]).encode()))
    with pytest.raises(InputError, match=r"^a.txt:32: is not UTF-8 text"):
        accounting.AccountingTable(Source("a.txt", b"JobID|Submit\n" + b"1|2\n" * 30 + b"1|\xff\n"), {"jobid"})
