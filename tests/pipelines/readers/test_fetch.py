"""Fetching from an archive: a local server stands in for it. Checksums stated, and recorded at the first download."""

from __future__ import annotations

import gzip
import threading
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.cli.traces import command as traces_command
from pipelines.lake.home import archive
from pipelines.readers import fetch as fetching
from pipelines.readers.catalogue import RECORDED, Entry, load_catalogue
from pipelines.readers.checksums import checksums
from pipelines.readers.read import find_entry, read_trace
from tests.pipelines.readers.test_catalogue import SWF, elsewhere
from tests.support.refusals import refusal

__all__ = ["elsewhere"]  # a fixture used by all
PACKED = gzip.compress(SWF.encode(), mtime=0)


class _Archive(BaseHTTPRequestHandler):
    """Sends a trace in the way its address asks for."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if "missing" in self.path:
            return self.send_error(404)
        self.send_response(200)
        body = b"<html>gone</html>" if "html" in self.path else PACKED
        offered = "gzip" in self.headers.get("Accept-Encoding", "")
        if "unpacking" in self.path or ("negotiating" in self.path and offered):
            self.send_header("Content-Encoding", "gzip")
        if "chunked" not in self.path:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:-10] if "truncated" in self.path or "chunked" in self.path else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Archive) as running:
        running.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def fetch(name: str, catalogue: dict[str, Entry], directory: Path) -> Path:
    """Fetch a trace with a checksum, of which nothing is to be said."""
    return fetching.fetch(name, catalogue, directory, pytest.fail)


def remote(server: HTTPServer, path: str, **keys: str) -> dict[str, Entry]:
    checks = keys or {"sha256": sha256(PACKED).hexdigest()}
    return {"a": Entry("a", place=f"http://127.0.0.1:{server.server_port}/{path}", stated_in=Path("site.toml"), **checks)}  # type: ignore[arg-type]


def test_a_trace_is_fetched_once_and_then_read(server: HTTPServer, elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalogue = remote(server, "l_a/A-1.swf.gz")
    path = fetch("a", catalogue, archive())
    assert path == elsewhere / "home" / "archive" / "A-1.swf.gz"
    assert path.read_bytes() == PACKED
    assert list(archive().iterdir()) == [path]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "A-1.swf.gz" in printed.err
    assert fetch("A", catalogue, archive()) == path
    assert server.asked == ["/l_a/A-1.swf.gz"]  # type: ignore[attr-defined]
    assert read_trace("a", catalogue=catalogue).procs == 64


@pytest.mark.parametrize(
    ("path", "keys", "error"),
    [
        ("A-1.swf.gz", {"sha256": "0" * 64}, "is not the trace a of site.toml: sha256 is {packed}..., not 000000000000..."),
        ("html/A-1.swf.gz", {"sha256_content": "0" * 64}, "is not the trace a of site.toml: sha256_content is {html}..., not 000000000000..."),
        ("truncated/A-1.swf.gz", {}, "cannot be fetched: the connection ended before the file did"),
        ("chunked/A-1.swf.gz", {}, "truncated: the gzip data end before their end mark"),
        ("missing/A-1.swf.gz", {}, "cannot be fetched: the server answers 404 Not Found"),
    ],
)  # fmt: skip
def test_what_does_not_arrive_whole_and_right_leaves_nothing_and_keeps_what_was_there(
    path: str, keys: dict[str, str], error: str, server: HTTPServer
) -> None:
    catalogue = remote(server, path, **keys)
    packed, html = sha256(PACKED).hexdigest()[:12], sha256(b"<html>gone</html>").hexdigest()[:12]
    expected = f"{catalogue['a'].place}: {error.format(packed=packed, html=html)}"
    assert refusal(fetch, "a", catalogue, archive()) == expected
    assert list(archive().iterdir()) == []
    (archive() / "A-1.swf.gz").write_bytes(b"old")
    assert refusal(fetch, "a", catalogue, archive()) == expected
    assert [file.read_bytes() for file in archive().iterdir()] == [b"old"]


def reload(elsewhere: Path, server: HTTPServer, path: str = "A-1.swf.gz") -> dict[str, Entry]:
    """Return a site's catalogue, read anew, whose trace has the checksum of its first download."""
    address = f"http://127.0.0.1:{server.server_port}/{path}"
    (elsewhere / "queuecast.toml").write_text(f'[traces.a-1]\nplace = "{address}"\nsha256_content = "{RECORDED}"\n')
    return load_catalogue()


def test_an_unknown_checksum_is_that_of_the_first_download_and_checked_ever_after(server: HTTPServer, elsewhere: Path) -> None:
    notes: list[str] = []
    catalogue = reload(elsewhere, server)
    assert refusal(read_trace, "a-1", catalogue=catalogue) == "a-1: not fetched yet: run `queuecast fetch a-1`"
    path = fetching.fetch("a-1", catalogue, archive(), notes.append)
    right = sha256(SWF.encode()).hexdigest()
    (note,) = notes
    assert note.startswith("a-1: Queuecast does not know this file's checksum, so that of this first copy was recorded")
    assert right[:12] in note
    assert tomllib.loads(checksums().read_text())[catalogue["a-1"].place]["sha256_content"] == right
    listed = CliRunner().invoke(traces_command, env={"COLUMNS": "300"}).output
    assert "recorded 2" in next(line for line in listed.splitlines() if "a-1" in line)
    assert "by first download" in next(line for line in listed.splitlines() if "ctc-sp2" in line)

    catalogue = reload(elsewhere, server)
    assert fetching.fetch("a-1", catalogue, archive(), notes.append) == path
    assert (len(notes), len(server.asked)) == (1, 1)  # type: ignore[attr-defined]
    assert read_trace("a-1", catalogue=catalogue).procs == 64
    path.write_bytes(gzip.compress(SWF.replace("3600", "7200").encode()))
    assert "is not the trace a-1 of checksums.toml, as first downloaded on 2" in refusal(read_trace, "a-1", catalogue=catalogue)
    fetching.fetch("a-1", catalogue, archive(), notes.append)
    assert read_trace("a-1", catalogue=catalogue).jobs["requested_s"].tolist() == [3600]


def test_a_changed_file_of_the_archive_is_refused_and_the_stored_one_stays(
    server: HTTPServer, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unresolved = reload(elsewhere, server)
    path = fetching.fetch("a-1", unresolved, archive(), [].append)
    monkeypatch.setattr(f"{__name__}.PACKED", gzip.compress(SWF.replace("3600", "7200").encode()))
    path.unlink()
    path.with_name("other").write_bytes(b"")
    for catalogue in (reload(elsewhere, server), unresolved):  # as another process sees it that read the catalogue before
        message = refusal(fetching.fetch, "a-1", catalogue, archive(), [].append)
        assert message.startswith(f"{catalogue['a-1'].place}: is not the trace a-1 of checksums.toml, as first downloaded on 2")
        assert [file.name for file in archive().iterdir()] == ["other"]
    assert message.endswith(f"; to take another, remove {path} and its address's table in {checksums()}")
    path.write_bytes(b"mine")
    refusal(fetching.fetch, "a-1", reload(elsewhere, server), archive(), [].append)
    assert path.read_bytes() == b"mine"
    path.unlink()
    checksums().unlink()
    assert read_trace(fetching.fetch("a-1", reload(elsewhere, server), archive(), [].append)).jobs["requested_s"].tolist() == [7200]


def test_a_file_that_is_there_already_is_taken_for_the_first_copy(server: HTTPServer, elsewhere: Path) -> None:
    catalogue = reload(elsewhere, server)
    mine = elsewhere / "A-1.swf"
    mine.write_text(SWF)
    assert read_trace(str(mine), catalogue=catalogue).name == "a-1"  # whose options of the catalogue hold
    entry = find_entry(str(mine), catalogue)
    assert entry is not None
    assert entry.sha256_content == sha256(SWF.encode()).hexdigest()
    archive().mkdir(parents=True)
    (archive() / "A-1.swf.gz").write_bytes(PACKED)
    assert "has no recorded checksum yet" in refusal(read_trace, "a-1", catalogue=catalogue)
    notes: list[str] = []
    fetching.fetch("a-1", catalogue, archive(), notes.append)
    assert (len(notes), server.asked) == (1, [])  # type: ignore[attr-defined]
    assert read_trace("a-1", catalogue=reload(elsewhere, server)).procs == 64


@pytest.mark.parametrize(
    "text", ['["http://a/b"]\nsha256_content = "x"\nsince = "2026-01-01"\n', "a = 1\n", "[a]\nb = 1\n", "[a\n"]
)
def test_a_damaged_file_of_checksums_is_refused_in_one_line(text: str) -> None:
    checksums().parent.mkdir()
    checksums().write_text(text)
    assert refusal(load_catalogue).startswith(str(checksums()))


def test_what_cannot_be_fetched_is_refused_before_anything_is_asked(server: HTTPServer) -> None:
    unchecked = {"a": Entry("a", place=f"http://127.0.0.1:{server.server_port}/A-1.swf.gz", stated_in=Path("site.toml"))}
    assert refusal(fetch, "a", unchecked, archive()) == (
        f"site.toml: traces.a: has neither sha256 nor sha256_content, so a download from {unchecked['a'].place} could not be checked"
    )
    local = {"a": Entry("a", place="b.swf", stated_in=Path("/x/site.toml")), "g": Entry("g", format="generated")}
    assert refusal(fetch, "a", local, archive()) == "a: needs no fetching, it is /x/b.swf"
    assert refusal(fetch, "g", local, archive()) == "g: needs no fetching, it is generated"
    assert refusal(fetch, "z", remote(server, "x"), archive()) == "z: is not a trace of the catalogue; known: a"
    assert server.asked == []  # type: ignore[attr-defined]
