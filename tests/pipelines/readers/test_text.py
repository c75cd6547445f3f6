"""Text is read in blocks and within the limits: what unpacks too far, has no line end, or never ends is refused."""

from __future__ import annotations

import gzip
import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import limits
from features.errors import InputError
from pipelines.readers import delimited as accounting
from pipelines.readers import swf, text
from pipelines.readers.control_runs import read_types
from pipelines.readers.ldms.files import scan
from pipelines.readers.people_tables import read_table
from pipelines.readers.read import read_trace
from pipelines.readers.slurm import sacct as slurm
from pipelines.readers.slurm.sacct import parse_sacct
from pipelines.readers.swf import parse_swf, read_swf
from pipelines.readers.text import Source, load
from tests.pipelines.readers.test_swf import LINE

RATIO = limits.EXPANSION


def bomb(path: Path, line: bytes, megabytes: int) -> Path:
    """A gzip of one line again and again."""
    with gzip.open(path, "wb") as file:
        block = line * (1 + (1 << 20) // len(line))
        for _ in range(megabytes):
            file.write(block)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and limits of some kilobytes, so that small files reach them."""
    monkeypatch.setattr(text, "BLOCK", 1 << 16)
    monkeypatch.setattr(limits, "LINE_BYTES", 4096)
    monkeypatch.setattr(limits, "EXPANSION_FREE_BYTES", 1 << 16)


def readings(path: Path):
    return (
        lambda: read_swf(path),
        lambda: parse_sacct(load(path), "UTC"),
        lambda: read_types(path),
        lambda: scan(path, {}),
    )


@pytest.mark.usefixtures("small")
def test_a_file_may_unpack_so_far(tmp_path: Path) -> None:
    path = bomb(tmp_path / "bomb.gz", f"{LINE}\n".encode(), 1)
    size = path.stat().st_size
    assert size * RATIO < 1 << 20
    for reading in readings(path)[::3]:
        with pytest.raises(InputError, match=rf"^{path}: its {size:,} bytes unpack to more than {size * RATIO:,}: "):
            reading()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("begin", ["", "JobID|Submit\n", "application,type\n", "#Time,ProducerName,a\n"])
def test_a_line_without_end_is_refused_by_every_reader(tmp_path: Path, begin: str) -> None:
    path = tmp_path / "line"
    path.write_text(begin + "1 " * 50_000)
    for reading in readings(path):
        with pytest.raises(InputError) as refused:
            reading()
        assert str(refused.value).startswith(f"{path}")
        assert len(str(refused.value)) < limits.MESSAGE


def test_devices_and_pipes_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        for reading in (*readings(path), lambda path=path: read_trace(path)):
            with pytest.raises(InputError, match=rf"^{path}: is a device or a pipe, not a file"):
                reading()


def test_a_parquet_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    pd.DataFrame({"job_id": np.zeros(9_000_000, np.int8), "predicted_s": np.zeros(9_000_000, np.int8)}).to_parquet(path)
    for read in (read_trace, partial(read_table, wanted=())):
        with pytest.raises(InputError, match=f"^{path}: its .* bytes unpack to more than .*: if that is right, unpack it first$"):
            read(path)


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


@settings(max_examples=10)
@given(
    st.lists(st.sampled_from(["1,2,a,x", "12,2,,b,x", '3,4,,"', 'x"', "bad", ""]), min_size=1, max_size=60), st.integers(40, 400)
)
def test_blocks_make_no_difference_to_accounting(lines: list[str], block: int) -> None:
    content = "\n".join(["JobID,Elapsed,State,JobName", "9,1,COMPLETED,zeta", *lines]).encode()

    def read() -> tuple:
        table = accounting.AccountingTable(Source("a.txt", content), {"jobid", "elapsed", "jobname"}, free=slurm.FREE_TEXT)
        columns = [table.category(name, np.ones(table.rows, bool)) for name in ("jobid", "elapsed", "jobname")]
        return [list(column) for column in columns], table.set_aside, table.lines.tolist()

    with pytest.MonkeyPatch.context() as patch:
        whole = read()
        patch.setattr(text, "BLOCK", block)
        patch.setattr(accounting, "_ROWS", block // 40)
        assert read() == whole


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_error_in_a_later_block_has_its_line_whatever_ends_the_lines(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(text, "BLOCK", 100)
    with pytest.raises(InputError, match=r"^a.swf:42: field 2"):
        swf.parse_swf(Source("a.swf", end.join(["; x", "", *[LINE] * 39, f"1 x{LINE[3:]}", LINE]).encode()))
    with pytest.raises(InputError, match=r"^a.txt:32: is not UTF-8 text"):
        accounting.AccountingTable(Source("a.txt", b"JobID|Submit\n" + b"1|2\n" * 30 + b"1|\xff\n"), {"jobid"})
