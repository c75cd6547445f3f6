"""The catalogue, what TRACE may be, and fetching from an archive: a local server stands in for it."""

from __future__ import annotations

import gzip
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from features.errors import RULE
from features.jobs.schema import Trace
from pipelines.lake.places import home
from pipelines.readers.canonical import write_canonical
from pipelines.readers.catalogue import MADE, PACKAGED, Entry, load_catalogue, read_catalogue
from pipelines.readers.read import find_entry, read_known, read_trace, remember
from tests.conftest import SHARED, needs_shared
from tests.support.refusals import refusal

SWF = "; MaxProcs: 64\n1 0 5 100 4 -1 -1 4 3600 -1 1 3 2 7 1 2 -1 -1\n"
SACCT = "JobID|Submit|Elapsed|ReqCPUS|ReqNodes\n1|2024-05-01T10:00:00|10:00|8|2\n"
PACKED = gzip.compress(SWF.encode(), mtime=0)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, without a site's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUEUECAST_CATALOGUE", raising=False)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


# The catalogue


def test_every_packaged_trace_can_be_made_or_fetched_and_checked() -> None:
    entries = load_catalogue()
    assert "generated" in entries
    for entry in entries.values():
        assert entry.format in MADE or entry.remote or (entry.path.is_file() and entry.checked)
        assert entry.title
        assert entry.stated_in == PACKAGED


@needs_shared
@pytest.mark.parametrize("name", [entry.name for entry in read_catalogue(PACKAGED).values() if entry.remote and entry.checked])
def test_the_checksums_of_the_packaged_traces_are_those_of_their_content(name: str) -> None:
    entry = load_catalogue()[name]
    content = gzip.decompress((SHARED / "traces" / entry.path.name).read_bytes())
    assert entry.sha256_content == sha256(content).hexdigest()


def test_the_log_that_comes_with_the_package_is_the_archives_file_and_names_whom_to_acknowledge() -> None:
    trace, entry = read_trace("kth-sp2"), load_catalogue()["kth-sp2"]
    assert (len(trace.jobs), trace.procs, trace.timezone) == (28_476, 100, "Europe/Stockholm")
    assert b"; Acknowledge: Lars Malinowsky" in gzip.decompress(entry.path.read_bytes())
    assert entry.sha256_content == load_catalogue()["kth-sp2-1996-2.1-cln"].sha256_content
    packed = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    assert any(entry.path.match(pattern) for pattern in packed), "not in an installed wheel"


def test_a_site_adds_traces_and_replaces_packaged_ones(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "logs").mkdir()
    (elsewhere / "logs" / "june.txt").write_text(SACCT)
    (elsewhere / "queuecast.toml").write_text(
        '[traces.june]\nplace = "logs/june.txt"\ntimezone = "Europe/Berlin"\nprocs = 16\nprocessors = "nodes"\nmissing_request = "runtime"\n'
        '[traces.generated]\nformat = "generated"\noptions = { jobs = 50 }\n'
    )
    entries = load_catalogue()
    assert entries["june"] == Entry(
        "june",
        place="logs/june.txt",
        timezone="Europe/Berlin",
        procs=16,
        processors="nodes",
        missing_request="runtime",
        stated_in=elsewhere / "queuecast.toml",
    )
    trace = read_trace("june")
    assert (trace.name, trace.procs, trace.timezone, trace.jobs["procs"][0]) == ("june", 16, "Europe/Berlin", 2)
    assert len(read_trace("generated").jobs) == 50
    assert "kth-sp2-1996-2.1-cln" in entries

    (elsewhere / "other.toml").write_text(f'[traces.other]\nplace = "{elsewhere}/logs/june.txt"\n')
    monkeypatch.setenv("QUEUECAST_CATALOGUE", "other.toml")
    assert {"other"} == set(load_catalogue()) - set(entries)
    assert "june" not in load_catalogue()
    assert load_catalogue()["other"].path == elsewhere / "logs" / "june.txt"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[traces.a]\nplace = 'x'\nprocs = \n", ":3: is not TOML: invalid value"),
        ("[trace.a]\n", ": unknown key 'trace': traces are tables [traces.NAME]"),
        ("traces = 3\n", ": traces must be tables [traces.NAME]"),
        ("[traces.Ab]\nplace = 'x'\n", ": traces: 'Ab' is not a name (such as ab): " + RULE),
        ("[traces.a]\nplace = 'x'\nprocz = 3\n", ": traces.a: procz is unknown; did you mean procs?"),
        ("[traces.a]\nplace = 'x'\nprocs = '3'\n", ": traces.a: procs must be a whole number, not '3'"),
        ("[traces.a]\nplace = 'x'\nprocs = 0\n", ": traces.a: procs must be from 1 to 100,000,000, not 0"),
        ("[traces.a]\nplace = 'x'\nmissing_request = 'guess'\n", ": traces.a: missing_request must be one of drop, runtime, queue-max, not 'guess'"),
        ("[traces.a]\nplace = 'x'\nsha256_content = 'abc'\n", ": traces.a: sha256_content must be 64 hexadecimal digits in lower case"),
        ("[traces.a]\nplace = 'x'\ntimezone = 'Berlin'\n", ": traces.a: timezone is an unknown time zone 'Berlin': use a name such as Europe/Stockholm"),
        ("[traces.a]\ntitle = 'x'\n", ": traces.a: place is missing"),
        ("[traces.a]\nformat = 'generated'\nplace = 'x'\n", ": traces.a: place has no meaning for a generated workload"),
    ],
)  # fmt: skip
def test_a_bad_catalogue_is_refused_with_file_entry_and_key(text: str, error: str, elsewhere: Path) -> None:
    path = elsewhere / "queuecast.toml"
    path.write_text(text)
    assert refusal(load_catalogue) == f"{path}{error}"


def test_a_catalogue_that_is_named_must_be_there(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_CATALOGUE", "none.toml")
    assert refusal(load_catalogue) == f"{elsewhere}/none.toml: no such file"


# What TRACE may be


@pytest.mark.parametrize("name", ["swf.csv", "swf.parquet", "swf"])
def test_a_file_is_told_by_its_content_not_its_name(name: str, elsewhere: Path) -> None:
    for data in (SWF.encode(), PACKED, ("\n\n" + SWF).encode(), SWF.splitlines()[1].encode()):
        (elsewhere / name).write_bytes(data)
        assert read_trace(f"./{name}").jobs["runtime_s"].tolist() == [100]
    for data in (SACCT.encode(), gzip.compress(SACCT.encode()), b"\xef\xbb\xbf" + SACCT.replace("|", ",").encode()):
        (elsewhere / name).write_bytes(data)
        assert read_trace(f"./{name}", timezone="UTC").jobs["runtime_s"].tolist() == [600]
    write_canonical(Trace("x", read_trace(f"./{name}", timezone="UTC").jobs), elsewhere / name)
    assert read_trace(f"./{name}").jobs["runtime_s"].tolist() == [600]


def test_what_is_given_overrules_the_catalogue_and_that_the_file(elsewhere: Path) -> None:
    (elsewhere / "a.swf").write_text("; TimeZoneString: Europe/Stockholm\n" + SWF)
    (elsewhere / "queuecast.toml").write_text("[traces.b]\nplace = 'a.swf'\nprocs = 32\ntimezone = 'Europe/Paris'\n")
    for spec, options, expected in (
        ("a.swf", {}, ("a", 64, "Europe/Stockholm")),
        ("a.swf", {"procs": 5, "timezone": "UTC"}, ("a", 5, "UTC")),
        ("b", {}, ("b", 32, "Europe/Paris")),
        ("B", {"procs": 5, "timezone": "UTC"}, ("b", 5, "UTC")),
    ):
        trace = read_trace(spec, **options)  # type: ignore[arg-type]
        assert (trace.name, trace.procs, trace.timezone) == expected


ARCHIVED = f"""[traces."a-1"]
place = "https://archive.example/A-1.swf.gz"
procs = 32
sha256_content = "{sha256(SWF.encode()).hexdigest()}"
missing_request = "runtime"
"""


def test_a_file_under_its_archive_name_is_that_trace_if_it_has_its_content(elsewhere: Path) -> None:
    (elsewhere / "queuecast.toml").write_text(ARCHIVED)
    path = elsewhere / "A-1.swf.gz"
    for data in (PACKED, SWF.encode()):
        path.write_bytes(data)
        for spec in (str(path), "A-1.swf.gz"):
            entry = find_entry(spec)
            assert entry is not None
            assert (entry.name, entry.path, entry.missing_request) == ("a-1", path, "runtime")
            assert read_trace(spec).procs == 32
        assert read_trace(path).procs == 32
    assert refusal(remember, "A-1.swf.gz").startswith("a-1: the run asks for another place than ")


def test_what_the_site_states_of_a_trace_is_all_that_counts(elsewhere: Path) -> None:
    (elsewhere / "a.swf").write_text(SWF)
    assert remember("a.swf", procs=96, starts=True) == "a"
    (elsewhere / "queuecast.toml").write_text('[traces.a]\nplace = "a.swf"\nprocs = 64\n')
    entry = load_catalogue()["a"]
    assert (entry.procs, entry.starts, entry.stated_in) == (64, False, elsewhere / "queuecast.toml")
    assert remember("a.swf") == remember("a", procs=64) == "a", "the file that the site states may still be named by its path"
    for options, name in (({"procs": 16}, "procs"), ({"starts": True}, "starts")):
        assert refusal(remember, "a", **options).startswith(
            f"a: the run asks for another {name} than {elsewhere}/queuecast.toml states"
        )


@pytest.mark.parametrize(
    ("counts", "procs"), [("", 20), ('processors = "nodes"', 3), ("cpus_per_node = 4", 12), ("procs = 64", 64)]
)
def test_a_slurm_site_tells_the_number_of_processors_unless_it_is_stated(elsewhere: Path, counts: str, procs: int) -> None:
    job = "1|ann|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T08:01:00|COMPLETED|4|1|60"
    (elsewhere / "a.txt").write_text(f"JobID|User|Submit|Start|End|State|NCPUS|NNodes|TimelimitRaw\n{job}\n")
    (elsewhere / "site").mkdir()
    (elsewhere / "site" / "slurm.conf").write_text("NodeName=n[1-2] CPUs=8\nNodeName=small CPUs=4\nPartitionName=all Nodes=ALL\n")
    (elsewhere / "queuecast.toml").write_text(f'[traces.a]\nplace = "a.txt"\nmachine = "site"\ntimezone = "UTC"\n{counts}\n')
    assert read_trace("a").procs == procs


def test_a_file_under_an_archive_name_with_other_content_is_its_own_trace_and_not_remembered(elsewhere: Path) -> None:
    (elsewhere / "queuecast.toml").write_text(ARCHIVED)
    (elsewhere / "A-1.swf").write_text(SWF.replace("100", "101"))
    assert find_entry("A-1.swf") is None
    assert read_trace("A-1.swf").procs == 64
    assert refusal(remember, "A-1.swf") == (
        f"{elsewhere}/A-1.swf: would be called a-1, which is a trace of queuecast.toml with other content: name that trace, or rename the file"
    )
    (elsewhere / "damaged").mkdir()
    (elsewhere / "damaged" / "A-1.swf.gz").write_bytes(PACKED[:-9])
    assert refusal(read_trace, "damaged/A-1.swf.gz") == "damaged/A-1.swf.gz: truncated: the gzip data end before their end mark"


def test_a_trace_in_the_home_moves_with_it(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, moved = home() / "logs", elsewhere / "moved"
    inside.mkdir(parents=True)
    (inside / "a.swf").write_text(SWF)
    (elsewhere / "b.swf").write_text(SWF)
    assert [remember(str(inside / "a.swf")), remember("b.swf")] == ["a", "b"]
    home().rename(moved)
    monkeypatch.setenv("QUEUECAST_HOME", str(moved))
    assert read_known("a").source == str(moved / "logs" / "a.swf")
    assert read_known("b").source == str(elsewhere / "b.swf")


def test_the_generated_trace_says_so_and_refuses_bad_options(elsewhere: Path) -> None:
    (elsewhere / "queuecast.toml").write_text(
        '[traces.small]\nformat = "generated"\noptions = { jobs = 20, procs = 32, seed = 7 }\n'
    )
    trace = read_trace("small")
    assert (trace.name, trace.generated, len(trace.jobs), trace.procs) == ("small", True, 20, 32)
    for options, error in (
        ("{ jobz = 3 }", "options.jobz is unknown; known: jobs, procs, users, load, seed, kept, generator"),
        ("{ jobs = -3 }", "generated workload: jobs must be a whole number of at least 2, not -3"),
    ):
        (elsewhere / "queuecast.toml").write_text(f'[traces.small]\nformat = "generated"\noptions = {options}\n')
        assert refusal(read_trace, "small") == f"{elsewhere}/queuecast.toml: traces.small: {error}"


def test_what_is_no_trace_is_refused(elsewhere: Path) -> None:
    (elsewhere / "prose.txt").write_text("Dear colleague,\n")
    (elsewhere / "rubbish.swf").write_bytes(bytes(range(256)))
    (elsewhere / "empty.swf").write_bytes(b"")
    (elsewhere / "damaged.parquet").write_bytes(b"PAR1 and no more")
    names = ", ".join(sorted(load_catalogue()))
    for spec, error in (
        (
            "sdsc-sp2",
            f"sdsc-sp2: no such file and no trace of the catalogue; did you mean sdsc-sp2-1998-4.2-cln? known: {names}",
        ),
        ("xyz", f"xyz: no such file and no trace of the catalogue; known: {names}"),
        ("xyz.swf", "xyz.swf: no such file"),
        ("logs/xyz", "logs/xyz: no such file"),
        (str(elsewhere), f"{elsewhere}: is a directory, not a file"),
        ("empty.swf", "empty.swf: is empty"),
        ("nasa-ipsc-1993-3.1-cln", "nasa-ipsc-1993-3.1-cln: not fetched yet: run `queuecast fetch nasa-ipsc-1993-3.1-cln`"),
    ):
        assert refusal(read_trace, spec) == error
    neither = (
        "is not a trace: neither SWF (numbers, ; before comments), nor Slurm accounting (a header line with | or another delimiter between names, or JSON), "
        "nor canonical Parquet"
    )
    assert refusal(read_trace, "rubbish.swf") == f"rubbish.swf: {neither}"
    assert refusal(read_trace, "prose.txt") == f"prose.txt: {neither}"
    assert refusal(read_trace, "damaged.parquet").startswith("damaged.parquet: is damaged or not a Parquet file: ")
