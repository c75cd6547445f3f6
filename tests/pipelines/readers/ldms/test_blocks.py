"""The LDMS reader: what store_csv writes comes out as a second reader reads it, and what is broken is named by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.readers.ldms import blocks as ldms
from pipelines.readers.ldms import files as ldms_files
from pipelines.readers.ldms.blocks import LdmsReader
from pipelines.readers.ldms.files import counter_files, header_beside, read_header, scan
from tests.campaigns.readings import ldms_places, ldms_rows
from tests.conftest import SHARED, needs_shared
from tests.oracle import readers
from tests.support.refusals import refusal

HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"
NO_ROW = "'{}' is no row of a time, a node and numbers"


def read(path: Path, sampler: str | None = "s", cut: int | None = None) -> tuple[list[LdmsReader], list[tuple]]:
    """The readers of a file, read on from ``cut`` if there is one, and its rows: microseconds, node, metrics."""
    scanned = scan(path, {})
    first = LdmsReader(path, sampler, header_beside(path), 0, scanned.length if cut is None else cut)
    rows = ldms_rows(first.blocks())
    if cut is None:
        return [first], rows
    second = LdmsReader(path, sampler, first.header, cut, scanned.length, first.line)
    return [first, second], rows + ldms_rows(second.blocks())


def by_a_second_reader(text: str) -> list[tuple]:
    """The rows below the one header of a text."""
    return readers.ldms_rows(text.encode(), *ldms_places(read_header(text.splitlines()[0], sampler="s")))


def written(tmp_path: Path, *lines: str, name: str = "log") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def refused(path: Path, sampler: str | None = "s") -> str:
    return refusal(read, path, sampler).removeprefix(f"{path}:")


numbers = st.one_of(
    st.integers(0, 2**64).map(str),
    st.integers(-(2**63), 3).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:.17g}"),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**15), max_value=10**15).map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(["", "nan", "-nan", "NaN", "-0", "+7", ".5", "5.", "1e23", "1e-999", " 7 ", "9007199254740993", '"8"']),
)
nodes = st.sampled_from(["n1", "quartz-2", '"n3"', '"n,4"', " n5 "])
seconds = st.one_of(st.integers(1, 30), st.integers(1_500_000_000, 1_500_000_003), st.just(2**33 - 1))
rows_of_a_log = st.lists(
    st.tuples(seconds, st.integers(0, 999_999), nodes, st.booleans(), st.lists(numbers, min_size=3, max_size=3))
)
layouts = st.sampled_from(
    [
        f"{HEAD},a,b,c",
        "#Time, Time_usec, DT, DT_usec, ProducerName, c, b",
        "#job_id,b::t,CompId,timestamp,a::s",
        "#hostname,timestamp,a",
    ]
)


def log(head: str, rows: list[tuple]) -> str:
    """The text of a log: whole seconds where the layout has but these, or a column completes them; every fifth line is empty."""
    lines = [head]
    for number, (second, micro, node, whole, cells) in enumerate(rows):
        if "usec" not in head:
            whole, micro = True, 0
        of = dict(zip("abc", cells, strict=True)) | {
            "time": str(second) if whole else f"{second}.{micro:06d}",
            "time_usec": str(micro) if whole else "77",
            "node": node,
        }
        of |= {"timestamp": of["time"], "dt": "1.5", "dt_usec": "x", "component_id": "3", "job_id": ""}
        of |= dict.fromkeys(("producername", "compid", "hostname"), node)
        names = [name.strip("# ").partition("::")[0].lower() for name in head.split(",")]
        lines += [",".join(of[name] for name in names), *([""] if number % 5 == 4 else [])]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.slow
@settings(max_examples=10)
@given(
    st.lists(st.tuples(layouts, rows_of_a_log), min_size=1, max_size=3),
    st.integers(1, 300),
    st.floats(0, 1),
    st.sampled_from(["\n", "\r\n"]),
)
def test_logs_one_behind_the_other_are_read_as_a_second_reader_reads_each(
    tmp_path_factory: pytest.TempPathFactory, logs: list, block: int, part: float, end: str
) -> None:
    path = tmp_path_factory.mktemp("a") / "log"
    texts = [log(head, rows) for head, rows in logs]
    path.write_bytes("".join(texts).replace("\n", end).encode())
    cut = path.read_bytes().index(b"\n", int(part * (path.stat().st_size - 1))) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ldms, "BLOCK", block)
        parts, rows = read(path, cut=cut)
    expected = [row for text in texts for row in by_a_second_reader(text)]
    np.testing.assert_equal(rows, expected)
    assert [np.signbit(row[2]).tolist() for row in rows if not np.isnan(row[2]).any()] == [
        np.signbit(row[2]).tolist() for row in expected if not np.isnan(row[2]).any()
    ]
    assert (parts[1].line, sum(each.rows for each in parts)) == ("".join(texts).count("\n"), len(rows))


def test_spaces_and_quotes_around_names_and_values_are_no_part_of_them(tmp_path: Path) -> None:
    assert read(written(tmp_path, '#Time, ProducerName, "x"', ' 5.25 ,"node1 ", 7 '))[1] == [(5_250_000, "node1", (7.0,))]


def test_names_lose_prefix_and_instance_but_where_two_instances_would_become_one() -> None:
    header = read_header(
        f"{HEAD},ib.port_xmit_data#mlx5_0.1,ib.symbol_error#mlx5_0.1,ib.symbol_error#mlx5_1.1", sampler="sysclassib"
    )
    assert [*header.samplers["sysclassib"]] == ["port_xmit_data", "symbol_error#mlx5_0.1", "symbol_error#mlx5_1.1"]
    header = read_header(f"{HEAD},client.lstats.open#llite.lustre,reads.value,reads.userdata", sampler="x")
    assert header.samplers["x"] == {"open": 5, "reads": 6}


@pytest.mark.parametrize("name", ["sysclassib", "sysclassib.1507711419", "sysclassib.1507711419.gz", "sysclassib-1507711419.csv"])
def test_the_sampler_is_known_from_the_name_of_the_file(name: str) -> None:
    assert list(read_header(f"{HEAD},a", file_name=name).samplers) == ["sysclassib"]


@needs_shared
def test_the_real_sample_of_a_cray_is_split_by_sampler() -> None:
    path = SHARED / "counters" / "ldms-aries-sample.csv"
    assert read(path, None)[1] == by_a_second_reader(path.read_text())
    names = path.read_text().splitlines()[0].split(",")
    header = read_header(",".join(names))
    assert {f"{metric}::{sampler}" for sampler, places in header.samplers.items() for metric in places} == set(names[3:])


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ([f"{HEAD},a,b", "1,0,n,1,0,1,2", "2,0,n,1,0,1"], 3, "6 fields, where the header has 7"),
        ([f"{HEAD},a,b", "1,0,n,1,0,1,2", "2,0,n,1,0,nan,what"], 3, NO_ROW.format("2,0,n,1,0,nan,what")),
        ([f"{HEAD},a", "1,0,n,1,0,0x10"], 2, NO_ROW.format("1,0,n,1,0,0x10")),
        ([f"{HEAD},a", "", "1,0,n,1,0,1e999", "2,0,n,1,0,1"], 3, NO_ROW.format("1,0,n,1,0,1e999")),
        ([f"{HEAD},a", '1,0,"node 1",1,0,1'], 2, NO_ROW.format('1,0,"node 1",1,0,1')),
        ([f"{HEAD},a", '1,0,n,1,"0,1', '2,0,n,1,0",1', "3,0,n,1,0,1"], 2, NO_ROW.format('1,0,n,1,"0,1')),
        ([f"{HEAD},a", "1,0,n,1,0,1\r2,0,n,1,0,1"], 2, "11 fields, where the header has 6"),
        ([f"{HEAD},a", "0,0,n,1,0,1"], 2, NO_ROW.format("0,0,n,1,0,1")),
        ([f"{HEAD},a", "1507711419002,0,n,1,0,1"], 2, NO_ROW.format("1507711419002,0,n,1,0,1")),
        ([f"{HEAD},a", "1,1000000,n,1,0,1"], 2, NO_ROW.format("1,1000000,n,1,0,1")),
        ([f"{HEAD},a", "1,0,n,1,0,1", "#what,0,n,1,0,1"], 3, NO_ROW.format("#what,0,n,1,0,1")),
        ([f"{HEAD},a", "1,0,n,1,0,1", "quux"], 3, "1 fields, where the header has 6"),
        (["#Time_msec,Time_usec,ProducerName,a", "1500000000000,1000,n,1"], 2, NO_ROW.format("1500000000000,1000,n,1")),
    ],
)
def test_a_damaged_line_costs_itself_and_of_a_few_lines_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], line: int, message: str
) -> None:
    monkeypatch.setattr(ldms, "BLOCK", 2000)
    assert refused(written(tmp_path, *lines)) == f"{line}: {message} (over 1% of the lines are damaged)"
    fields = {"a": "1", "b": "2", "Time_msec": "1500000000000", "ProducerName": "n"}
    good = ",".join(fields.get(name, "1") for name in lines[0].removeprefix("#").split(","))
    (reader,), rows = read(written(tmp_path, lines[0], *[good] * 300, *lines[1:], *[good] * 300))
    assert 1 <= reader.damaged <= 2
    assert reader.damaged + len(rows) == 600 + sum(map(bool, lines[1:])), "each line is a row or counted"
    assert reader.line == 601 + len(lines) - 1


def test_a_header_that_cannot_be_read_costs_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEAD},a", *["1,0,n,1,0,1"] * 300, f"{HEAD},a,a", *["1,0,n,1,0,1,2"] * 300)
    assert refused(path) == "302: the header names the metric a twice"


@pytest.mark.parametrize("block", [120, 1 << 20])
def test_a_column_of_text_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(ldms, "BLOCK", block)
    lines = [f"{HEAD},a,devname,b", "1,0,n,1,0,1,mlx5_0,", "2,0,n,1,0,2,mlx5_0,", *["3,0,n,1,0,3,mlx5_1,3"] * 9]
    (reader,), rows = read(written(tmp_path, *lines))
    np.testing.assert_equal([row[2] for row in rows], [(1.0, np.nan), (2.0, np.nan), *[(3.0, 3.0)] * 9])
    assert (reader.text, reader.damaged) == ({"devname"}, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,0,n,1,0,1", "no header line: '1,0,n,1,0,1' names no column Time, and there is no header file beside it"),
        ("#Time,Time_usec,a", "the header has no column of nodes: ProducerName, node_id, hostname or component_id"),
        (HEAD, "the header names no metric"),
        (f"{HEAD},a,,b", "the header leaves column 7 without a name"),
        (f"{HEAD},a::../b", "'../b' cannot be a sampler's name: letters, digits, _ . and - only"),
        (f"{HEAD},time_s", "a metric cannot be called time_s"),
    ],
)
def test_a_broken_first_header_is_refused(tmp_path: Path, line: str, message: str) -> None:
    assert refused(written(tmp_path, line)) == f"1: {message}"


def test_an_unfinished_last_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"{HEAD},a\n1,0,n,1,0,1\n2,0,n,1,0,12")
    assert scan(path, {}).rest == len("2,0,n,1,0,12")
    assert [row[2] for row in read(path)[1]] == [(1.0,)]


@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_text_that_continues_a_known_one_is_recognised_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(ldms_files, "BLOCK", block)
    rows = [f"{number},0,n,1,0,{number}" for number in range(1, 400)]
    short = scan(written(tmp_path, f"{HEAD},a", *rows[:100]), {})
    scanned = {short.first: {short.length: short.sha256}}
    assert scan(written(tmp_path, f"{HEAD},a", *rows, name="other"), scanned).known_length == short.length
    other = written(tmp_path, f"{HEAD},a", *rows[:50], "51,0,n,1,0,52", *rows[51:], name="another")
    assert scan(other, scanned).known_length == 0


@pytest.mark.parametrize("header", ["sysclassib.HEADER.1507711419", "sysclassib.HEADER"])
def test_the_header_may_lie_beside_the_file(tmp_path: Path, header: str) -> None:
    data = written(tmp_path, "1,0,n,1,0,5,6", name="sysclassib.1507711419")
    written(tmp_path, f"{HEAD},a", f"{HEAD},a,b", name=header)
    written(tmp_path, f"{HEAD},x,y", name="sysclassib.HEADER.1507719999")
    assert counter_files(tmp_path) == [data]
    (reader,), rows = read(data, None)
    assert (reader.header, rows) == (f"{HEAD},a,b", [(1_000_000, "n", (5.0, 6.0))])


def rows_at(*seconds: int, cells: str = "1,0,5,6") -> list[str]:
    return [f"{second},0,n,{cells}" for second in seconds]


@pytest.mark.parametrize(
    ("lines", "rows", "damaged", "text"),
    [
        pytest.param([*rows_at(*range(1, 300)), "300,0,n,1,0,  ,6"], 299, 1, set(), id="a cell of blanks"),
        pytest.param([*rows_at(*range(1, 300), cells='1,0,"5",6'), "torn"], 299, 1, set(), id="quoted numbers"),
        pytest.param(rows_at(*range(1, 300), cells='1,0,"x,y",6'), 299, 0, {"a"}, id="text with commas"),
        pytest.param(
            [*rows_at(*range(1, 20)), "torn", f"{HEAD},a,b", *rows_at(*range(20, 900))], 899, 1, set(), id="a header after it"
        ),
    ],
)
def test_a_damaged_line_costs_no_other_line(tmp_path: Path, lines: list[str], rows: int, damaged: int, text: set[str]) -> None:
    (reader,), kept = read(written(tmp_path, f"{HEAD},a,b", *lines))
    assert (len(kept), reader.damaged, reader.text) == (rows, damaged, text)


def test_a_header_file_that_holds_no_header_leaves_other_files_alone(tmp_path: Path) -> None:
    data = written(tmp_path, f"{HEAD},a,b", "1,0,n,1,0,5,6", name="sysclassib.1507711419")
    (tmp_path / "sysclassib.HEADER").write_bytes(b"\x1f\x8b rubbish")
    assert len(read(data, None)[1]) == 1
