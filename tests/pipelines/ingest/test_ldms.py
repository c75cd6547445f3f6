"""The LDMS reader: what store_csv writes comes out as Python's own float and csv read it, and what is broken is named by line."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

from features import limits
from features.errors import InputError
from features.monitoring.samplers import SAMPLERS
from pipelines.ingest import ldms, ldms_files
from pipelines.ingest.ldms import LdmsReader, NodeTable
from pipelines.ingest.ldms_files import counter_files, scan
from pipelines.ingest.ldms_header import read_header
from tests.conftest import SHARED, needs_shared

HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"


def read(path: Path, sampler: str | None = "s", nodes: NodeTable | None = None) -> tuple[LdmsReader, pd.DataFrame]:
    """The reader after the fact, and its rows: time_us, node, and columns ``sampler.metric``."""
    scanned = scan(path, {})
    nodes = nodes or NodeTable()
    reader = LdmsReader(path, nodes, sampler=sampler, header=scanned.header, stop=scanned.length)
    frames = []
    for block in reader.blocks():
        columns = {"time_us": block.time_us, "node": [nodes.names[code] for code in block.node]}
        for name, (metrics, rows) in block.header.samplers.items():
            columns |= {f"{name}.{metric}": block.values[row] for metric, row in zip(metrics, rows, strict=True)}
        frames.append(pd.DataFrame(columns))
    return reader, pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def written(tmp_path: Path, *lines: str, name: str = "log") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(path: Path, sampler: str | None = "s") -> str:
    with pytest.raises(InputError) as caught:
        read(path, sampler)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}:")


def test_a_store_csv_file_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"{HEAD},a,b,c",
        "1507711419.002153,2153,quartz1,1,0,18446744073709551615,-1.5,",
        "1507711420.000001,1,quartz2,2,77,0,1e-3,nan",
    )
    reader, table = read(path)
    assert table.time_us.tolist() == [1507711419002153, 1507711420000001]
    assert table.node.tolist() == ["quartz1", "quartz2"]
    assert table["s.a"].tolist() == [2.0**64, 0.0]
    assert table["s.b"].tolist() == [-1.5, 0.001]
    assert table["s.c"].isna().all()
    assert (reader.rows, reader.line) == (2, 3)


numbers = st.one_of(
    st.integers(0, 2**64).map(str),
    st.integers(-(2**63), 0).map(str),
    st.integers(0, 3).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:.17g}"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: f"{value:.9g}"),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**15), max_value=10**15).map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(["", "nan", "-nan", "NaN", "-0", "+7", ".5", "5.", "1e22", "1e23", "9007199254740993", "18446744073709551616"]),
)


@pytest.mark.slow
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=40), st.integers(1, 60))
def test_every_number_is_what_float_makes_of_it(tmp_path_factory: pytest.TempPathFactory, rows: list, block: int) -> None:
    path = tmp_path_factory.mktemp("a") / "log"
    lines = [f"{HEAD},a,b,c", *(f"{100 + row}.5,500000,n{row % 7},1,0,{','.join(fields)}" for row, fields in enumerate(rows))]
    path.write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ldms, "BLOCK", 40 + block)
        patch.setattr(ldms, "_HARD", 3)
        _, table = read(path)
    expected = np.array([[float(text) if text else np.nan for text in fields] for fields in rows])
    found = table[["s.a", "s.b", "s.c"]].to_numpy()
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
    assert table.time_us.tolist() == [(100 + row) * 10**6 + 500_000 for row in range(len(rows))]
    assert table.node.tolist() == [f"n{row % 7}" for row in range(len(rows))]


@pytest.mark.slow
def test_a_large_random_file_is_what_arrow_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = 3_000
    frame = pd.DataFrame({"#Time": [f"{1_500_000_000 + row}.{row:06d}" for row in range(rows)], "Time_usec": range(rows)})
    frame["ProducerName"] = [f"host-{number}" for number in rng.integers(0, 2_000, rows)]
    for metric in range(60):
        frame[f"m{metric}"] = rng.integers(0, 10 ** int(rng.integers(1, 19)), rows)
    frame["f"] = rng.normal(size=rows)
    path = tmp_path / "log.gz"
    frame.to_csv(path, index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ldms, "BLOCK", 50_000)
        _, table = read(path, nodes=NodeTable(2))  # the table of names grows many times
    again = arrow_csv.read_csv(path).to_pandas()
    assert table.node.tolist() == again.ProducerName.tolist()
    for name in again.columns[3:]:
        np.testing.assert_array_equal(table[f"s.{name}"], again[name].astype(float))


@pytest.mark.parametrize(
    ("time", "usec", "micro"),
    [
        ("1507711419.002153", "2153", 1507711419002153),
        ("1507711419", "2153", 1507711419002153),
        ("1507711419.5", "9", 1507711419500000),
        ("1507711419.0021536", "0", 1507711419002154),
        ("8589934591.999999", "0", 8589934591999999),
    ],
)
def test_times_are_exact_to_the_microsecond(tmp_path: Path, time: str, usec: str, micro: int) -> None:
    _, table = read(written(tmp_path, f"{HEAD},a", f"{time},{usec},n,1,0,5"))
    assert table.time_us.tolist() == [micro]


def test_repeated_and_changed_headers_take_force_where_they_stand(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"{HEAD},a,b",
        "1,0,n1,1,0,10,20",
        f"{HEAD},a,b",
        "2,0,n1,1,0,11,21",
        "",
        f"{HEAD.removeprefix('#')},b,c",
        "3,0,n1,1,0,22,30",
    )
    _, table = read(path)
    assert table["s.a"].tolist()[:2] == [10, 11]
    assert table["s.b"].tolist() == [20, 21, 22]
    assert table["s.c"].tolist()[2] == 30


def test_function_stores_spaces_quotes_and_line_ends_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'#Time, Time_usec, DT, DT_usec, ProducerName, "x"\r\n 5.25 ,250000, 1.0,3,"node 1"\r\n')
    assert refusal(path) == "2: ProducerName is 'node 1', no name of a node"
    path.write_bytes(b'#Time, Time_usec, DT, DT_usec, ProducerName, "x"\r\n 5.25 ,250000, 1.0,3,"node1", 7 \r\n\r\n')
    _, table = read(path)
    assert table.to_dict("list") == {"time_us": [5_250_000], "node": ["node1"], "s.x": [7.0]}


def test_without_producer_the_component_is_the_node(tmp_path: Path) -> None:
    _, table = read(written(tmp_path, "#Time,Time_usec,CompId,a", "1.0,0,17,3"))
    assert table.node.tolist() == ["17"]


def test_names_lose_prefix_and_instance_but_where_two_instances_would_become_one() -> None:
    header = read_header(
        f"{HEAD},ib.port_xmit_data#mlx5_0.1,ib.symbol_error#mlx5_0.1,ib.symbol_error#mlx5_1.1", sampler="sysclassib"
    )
    assert header.samplers["sysclassib"][0] == ("port_xmit_data", "symbol_error#mlx5_0.1", "symbol_error#mlx5_1.1")
    header = read_header(f"{HEAD},client.lstats.open#llite.lustre,reads.value,reads.userdata", sampler="x")
    assert header.samplers["x"][0] == ("open", "reads")


@pytest.mark.parametrize("name", ["sysclassib", "sysclassib.1507711419", "sysclassib.1507711419.gz", "sysclassib-1507711419.csv"])
def test_the_sampler_is_known_from_the_name_of_the_file(name: str) -> None:
    assert list(read_header(f"{HEAD},a", file_name=name).samplers) == ["sysclassib"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_sampler_is_known_from_its_metrics(sampler: str) -> None:
    names = ",".join(f"{metric}#hfi1_0.1" for metric in SAMPLERS[sampler].metrics)
    header = read_header(f"{HEAD},{names}", file_name="x.csv")
    assert {name: metrics for name, (metrics, _) in header.samplers.items()} == {sampler: SAMPLERS[sampler].metrics}


@needs_shared
def test_the_real_sample_of_a_cray_is_split_by_sampler() -> None:
    path = SHARED / "counters" / "ldms-aries-sample.csv"
    _, table = read(path, None)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert table.node.tolist() == [row["node_id"] for row in rows]
    assert table.time_us.tolist() == [int(row["timestamp"]) * 10**6 for row in rows]
    assert len(table.columns) - 2 == len(rows[0]) - 3
    for column in rows[0]:
        if "::" in column:
            metric, sampler = column.split("::")
            assert table[f"{sampler}.{metric}"].tolist() == [float(row[column]) for row in rows]


def test_rows_before_an_earlier_time_of_their_node_are_late(tmp_path: Path) -> None:
    rows = ["10,0,a,1,0,1", "9,0,b,1,0,1", "9,0,a,1,0,1", "10,0,a,1,0,1", "8,0,b,1,0,1"]
    reader, table = read(written(tmp_path, f"{HEAD},x", *rows))
    assert reader.late == 2
    assert table.time_us.tolist() == [10_000_000, 9_000_000, 9_000_000, 10_000_000, 8_000_000]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([f"{HEAD},a,b", "1,0,n,1,0,1,2", "2,0,n,1,0,1"], "3: 6 fields, where the header has 7"),
        ([f"{HEAD},a", "1,0,n,1,0,1,2"], "2: 7 fields, where the header has 6"),
        ([f"{HEAD},a,b", "1,0,n,1,0,1,2", "2,0,n,1,0,1,what"], "3: b is 'what', not a number"),
        ([f"{HEAD},a", "1,0,n,1,0,1.2.3"], "2: a is '1.2.3', not a number"),
        ([f"{HEAD},a", "1,0,n,1,0,0x10"], "2: a is '0x10', not a number"),
        ([f"{HEAD},a", "1,0,n,1,0,-inf"], "2: a is '-inf', not a finite number"),
        ([f"{HEAD},a", "", "1,0,n,1,0,1e999", "2,0,n,1,0,1"], "3: a is '1e999', not a finite number"),
        ([f"{HEAD},a", "1,0,,1,0,1"], "2: ProducerName is '', no name of a node"),
        ([f"{HEAD},a", "-1,0,n,1,0,1"], "2: Time is '-1', no time in Unix seconds"),
        ([f"{HEAD},a", "0,0,n,1,0,1"], "2: Time is '0', no time in Unix seconds"),
        ([f"{HEAD},a", "1507711419002,0,n,1,0,1"], "2: Time is '1507711419002', no time in Unix seconds"),
        ([f"{HEAD},a", "1,1000000,n,1,0,1"], "2: Time_usec is '1000000', not a number"),
        ([f"{HEAD},a", "1,0,n,1,0,1", "#what,0,n,1,0,1"], "3: '#what,0,n,1,0,1' begins with # but is no header"),
        ([f"{HEAD},a", "1,0,n,1,0,1", "quux"], "3: 'quux' is neither a row nor a header"),
        ([f"{HEAD},a", "1,0,n,1,0,1", f"{HEAD},a,a"], "3: the header names the metric a twice"),
        (["1,0,n,1,0,1"], "1: no header line: '1,0,n,1,0,1' names no column Time, and there is no header file beside it"),
        (["#Time,Time_usec,a"], "1: the header has no column of nodes: ProducerName, node_id, hostname or component_id"),
        ([HEAD], "1: the header names no metric"),
        ([f"{HEAD},a,,b"], "1: the header leaves column 7 without a name"),
        ([f"{HEAD},a::../b"], "1: '../b' cannot be a sampler's name: letters, digits, _ . and - only"),
    ],
)
def test_what_is_broken_is_named_by_line(tmp_path: Path, lines: list[str], message: str) -> None:
    assert refusal(written(tmp_path, *lines)) == message


def test_an_error_far_into_the_file_is_named_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldms, "BLOCK", 200)
    rows = [f"{number},0,n,1,0,1" for number in range(1, 1_000)]
    assert refusal(written(tmp_path, f"{HEAD},a", *rows, "1000,0,n,1,0,x")) == "1001: a is 'x', not a number"


def test_an_unknown_sampler_is_asked_for(tmp_path: Path) -> None:
    expected = (
        "1: unknown sampler: neither the file's name nor its metrics (x, y) are those of sysclassib, opa_info, lustre2_client; "
    )
    assert refusal(written(tmp_path, f"{HEAD},x,y", "1,0,n,1,0,1,2"), None) == expected + "say which it is with --sampler"


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")
    assert refusal(path) == " is empty"
    path.write_bytes(bytes(range(256)) * 3 + b"\n")
    assert "no header line" in refusal(path)
    packed = gzip.compress(b"#Time,ProducerName,a\n" + b"1,n,5\n" * 1000)
    path.write_bytes(packed[:-20])
    assert refusal(path) == " truncated: the gzip data end before their end mark"
    path.write_bytes(packed[:30] + b"xxxx" + packed[34:])
    assert refusal(path).startswith(" damaged gzip data: ")


def test_an_unfinished_last_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"{HEAD},a\n1,0,n,1,0,1\n2,0,n,1,0,12")
    assert scan(path, {}).rest == len("2,0,n,1,0,12")
    _, table = read(path)
    assert table["s.a"].tolist() == [1]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINE_BYTES", 1 << 20)
    path = tmp_path / "log"
    path.write_bytes(b"#Time,ProducerName,a\n" + b"1" * (3 << 20))
    assert refusal(path) == " has a line of more than 1 MiB"


@pytest.mark.parametrize("header", ["sysclassib.HEADER.1507711419", "sysclassib.HEADER", "sysclassib.HEADER.1507711400"])
def test_the_header_may_lie_beside_the_file(tmp_path: Path, header: str) -> None:
    data = written(tmp_path, "1,0,n,1,0,5,6", name="sysclassib.1507711419")
    written(tmp_path, f"{HEAD},a", f"{HEAD},a,b", name=header)
    written(tmp_path, f"{HEAD},x,y", name="sysclassib.HEADER.1507719999")
    assert counter_files(tmp_path) == [data]
    _, table = read(data, None)
    assert table.columns.tolist() == ["time_us", "node", "sysclassib.a", "sysclassib.b"]


def test_directories_and_patterns_name_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.2", "a.1", "sub/c", ".hidden", "a.KIND.1"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in counter_files(tmp_path)] == ["a.1", "b.2", "c"]
    assert [path.name for path in counter_files(tmp_path / "*.1")] == ["a.1"]
    with pytest.raises(InputError, match="no such file"):
        counter_files(tmp_path / "nothing*")


def test_text_that_continues_a_known_one_is_recognised_whatever_its_name(tmp_path: Path) -> None:
    rows = [f"{number},0,n,1,0,{number}" for number in range(1, 400)]
    short = scan(written(tmp_path, f"{HEAD},a", *rows[:100]), {})
    known = {short.first: {short.length: short.sha256}}
    longer = written(tmp_path, f"{HEAD},a", *rows, name="other")
    assert scan(longer, known).known == short.length
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ldms_files, "BLOCK", 64)
        assert scan(longer, known).known == short.length
    other = written(tmp_path, f"{HEAD},a", *rows[:50], "51,0,n,1,0,0", *rows[51:], name="another")
    assert scan(other, known).known == 0
